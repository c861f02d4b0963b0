import { expect } from 'vitest';
import { decodeBase64url } from '../../../shared/crypto/base64url.ts';
import { must } from '../../../shared/errors/assert.ts';
import type { Mode } from '../../../shared/model/mode.ts';
import type { Api } from '../api.ts';
import type { DecisionCase } from './decision-case.ts';
import type { Props } from './http-stage.ts';
import { gateBodyOf, passportBodyOf } from './load-cases.ts';
import { issuerBodyOf, othersPassport } from './others.ts';
import { hasEarlier } from './play-case.ts';

/** An account, with a key for each of its worlds. */
export interface Account {
  readonly accountId: string;
  readonly keys: Readonly<Record<Mode, string>>;
}

/**
 * The accounts that the programs under test have to do with: the one whose gate is asked about, and another
 * one.
 */
export interface Accounts {
  readonly own: Pick<Account, 'keys'>;
  readonly foreign: Account;
}

export async function keysOf(api: Api, adminKey: string): Promise<Account['keys']> {
  const test = await api.createKey({ scopes: ['admin:*'], mode: 'test' }, adminKey);
  return { live: adminKey, test: test.key };
}

export async function newAccount(api: Api): Promise<Account> {
  const { accountId, key } = await api.createAccount();
  return { accountId, keys: await keysOf(api, key) };
}

/** With which tokens are signed. */
export async function passportKeyOf(api: Api): Promise<Uint8Array> {
  const jwks = await api.call({ url: '/.well-known/jwks.json', key: null });
  const jwk = jwks.body.keys.find((key: { purpose: string }) => key.purpose === 'passport');
  return must(decodeBase64url(jwk.x), 'the key of a JWK is base64url');
}

/** A case that is set up. */
interface World {
  readonly props: Props;
  readonly about: {
    readonly passportId: string;
    /** Of an issuer of others, whose passport may not be there yet. Else null. */
    readonly subject: string | null;
    readonly issuerId: string;
    readonly issuerKey: string;
    readonly foreignAccountId: string;
  };
}

/** Sets a case up by the public API, with issuers of its own. */
export async function setUpCase(api: Api, decisionCase: DecisionCase, accounts: Accounts): Promise<World> {
  const [world] = await setUpCases(api, decisionCase, accounts, 1);
  return must(world, 'one was asked for');
}

/**
 * Sets a case up so many times, each with passports of its own. A gate at which nothing is counted, and
 * nothing is asked twice, is one for all of them.
 */
export async function setUpCases(
  api: Api,
  decisionCase: DecisionCase,
  { own, foreign }: Accounts,
  times: number,
): Promise<readonly World[]> {
  const { gate, passport, mode } = decisionCase;
  const key = own.keys[mode];
  const issuerKey = (passport.issued_by === 'foreign' ? foreign : own).keys[passport.mode];
  const makeIssuers = async () => ({
    own: (await api.createIssuer(issuerBodyOf(passport), own.keys[passport.mode])).issuer_id,
    foreign: (await api.createIssuer({}, foreign.keys[passport.mode])).issuer_id,
  });
  const makeScene = async () => {
    const issuers = await makeIssuers();
    const gateIds = {
      'the gate': gate === null ? null : (await api.createGate(gateBodyOf(gate, issuers), key)).gate_id,
      'another gate': hasEarlier(decisionCase) ? (await api.createGate({}, key)).gate_id : null,
      'no gate': null,
    };
    return { issuers, gateIds };
  };
  const isShared = !hasEarlier(decisionCase) && !countsRequests(gate?.constraints ?? {});
  const shared = isShared ? await makeScene() : null;
  const makeWorld = async () => {
    const { issuers, gateIds } = shared ?? (await makeScene());
    const issue = () =>
      passport.issued_by === 'others'
        ? othersPassport(issuers.own, api.deps.clock.now())
        : api.issuePassport(passportBodyOf(passport, issuers), issuerKey);
    const issued = await issue();
    const another = hasEarlier(decisionCase) ? (await issue()).jwt : '';
    const tokens = { 'the passport': issued.jwt as string, 'another passport': another as string };
    const issuerId = passport.issued_by === 'foreign' ? issuers.foreign : issuers.own;
    const subject = passport.issued_by === 'others' ? (issued.agent_id as string) : null;
    const about = { passportId: issued.passport_id as string, subject, issuerId, issuerKey };
    return { props: { tokens, gateIds, key }, about: { ...about, foreignAccountId: foreign.accountId } };
  };
  const worlds: World[] = [];
  while (worlds.length < times) worlds.push(await makeWorld());
  return worlds;
}

const countsRequests = (constraints: Readonly<Record<string, unknown>>): boolean =>
  'spend_limits' in constraints || 'rate_limits' in constraints;

/**
 * What is to have happened at the control plane when the case is decided. That it is away is left to whoever
 * has a way to cut.
 */
export async function bringAbout(
  api: Api,
  { circumstances }: DecisionCase,
  about: World['about'],
): Promise<void> {
  const { issuerKey } = about;
  const passportUrl = `/v1/passports/${about.passportId}`;
  const account = `/v1/accounts/${about.foreignAccountId}`;
  const suspended = { status: 'suspended' };
  for (const circumstance of circumstances) {
    if (circumstance === 'control plane away') continue;
    const reply = await {
      'passport revoked': () =>
        about.subject === null
          ? api.call({ url: `${passportUrl}/revoke`, key: issuerKey, body: {} })
          : api.call({
              url: `/v1/issuers/${about.issuerId}/revoke-subject`,
              key: issuerKey,
              body: { subject: about.subject },
            }),
      'passport suspended': () => api.call({ url: `${passportUrl}/suspend`, key: issuerKey, body: {} }),
      'issuer suspended': () =>
        api.call({ method: 'PUT', url: `/v1/issuers/${about.issuerId}`, key: issuerKey, body: suspended }),
      'account suspended': () => api.call({ method: 'PUT', url: account, body: suspended }),
      'key compromised': () => Promise.reject(new Error('no case that needs it is played here')),
    }[circumstance]();
    expect(reply.status).toBe(200);
  }
}
