import { expect } from 'vitest';
import { decodeBase64url } from '../../../shared/crypto/base64url.ts';
import { must } from '../../../shared/errors/assert.ts';
import type { Mode } from '../../../shared/model/mode.ts';
import type { Api } from '../service/api.ts';
import type { DecisionCase } from './decision-case.ts';
import type { Props } from './http-stage.ts';
import { gateBodyOf, passportBodyOf } from './load-cases.ts';
import { federationOf, newAudience, othersPassport } from './others.ts';
import { hasEarlier } from './play-case.ts';

/** An account, with a key for each of its worlds. */
interface Account {
  readonly accountId: string;
  readonly keys: Readonly<Record<Mode, string>>;
}

/** The ids of an issuer of either account. */
interface Issuers {
  readonly own: string;
  readonly foreign: string;
}

/**
 * The accounts of the cases: the one whose gate is asked about, and another one; and what cases share there.
 */
export interface CaseRoom {
  readonly own: Pick<Account, 'keys'>;
  readonly foreign: Account;
  /** With which tokens are signed. */
  readonly publicKey: Uint8Array;
  /** Of each mode, for cases in which nothing becomes of an issuer. */
  readonly issuers: Readonly<Record<Mode, Issuers>>;
  /** The ids of gates at which nothing is counted and nothing is asked twice, by what they are made of. */
  readonly gateIds: Map<string, Promise<string>>;
}

export async function caseRoomOf(api: Api): Promise<CaseRoom> {
  const own = { keys: await keysOf(api, api.adminKey) };
  const foreign = await newAccount(api);
  const issuers = {
    live: await makeIssuers(api, { own, foreign }, 'live'),
    test: await makeIssuers(api, { own, foreign }, 'test'),
  };
  return { own, foreign, publicKey: await passportKeyOf(api), issuers, gateIds: new Map() };
}

async function keysOf(api: Api, adminKey: string): Promise<Account['keys']> {
  const test = await api.createKey({ scopes: ['admin:*'], mode: 'test' }, adminKey);
  return { live: adminKey, test: test.key };
}

async function newAccount(api: Api): Promise<Account> {
  const { accountId, key } = await api.createAccount();
  return { accountId, keys: await keysOf(api, key) };
}

const makeIssuers = async (
  api: Api,
  { own, foreign }: Pick<CaseRoom, 'own' | 'foreign'>,
  mode: Mode,
  body: object = {},
): Promise<Issuers> => ({
  own: (await api.createIssuer(body, own.keys[mode])).issuer_id,
  foreign: (await api.createIssuer({}, foreign.keys[mode])).issuer_id,
});

/** With which tokens are signed. */
async function passportKeyOf(api: Api): Promise<Uint8Array> {
  const jwks = await api.call({ url: '/.well-known/jwks.json', key: null });
  const jwk = jwks.body.keys.find((key: { purpose: string }) => key.purpose === 'passport');
  return must(decodeBase64url(jwk.x), 'the key of a JWK is base64url');
}

/** A case that is set up. */
export interface World {
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

/** Sets a case up by the public API so many times, each with passports of its own. */
export async function setUpCases(
  api: Api,
  room: CaseRoom,
  decisionCase: DecisionCase,
  times: number,
): Promise<readonly World[]> {
  const { gate, passport, mode, circumstances } = decisionCase;
  // The others share one, which must stay as it is.
  const foreign = circumstances.includes('account suspended') ? await newAccount(api) : room.foreign;
  const { own } = room;
  const key = own.keys[mode];
  const issuerKey = (passport.issued_by === 'foreign' ? foreign : own).keys[passport.mode];
  const areShared =
    foreign === room.foreign &&
    passport.issued_by !== 'others' &&
    !circumstances.includes('issuer suspended');
  const audience = newAudience();
  const terms = passport.issued_by === 'others' ? { federation: federationOf(passport, audience) } : {};
  const issuers = areShared
    ? room.issuers[passport.mode]
    : await makeIssuers(api, { own, foreign }, passport.mode, terms);

  const makeGate = async () => {
    if (gate === null) return null;
    const body = gateBodyOf(gate, issuers);
    const make = async (): Promise<string> => (await api.createGate(body, key)).gate_id;
    if (hasEarlier(decisionCase) || countsRequests(gate.constraints)) return make();
    const name = JSON.stringify([mode, body]);
    const made = room.gateIds.get(name) ?? make();
    room.gateIds.set(name, made);
    return made;
  };
  const issue = () =>
    passport.issued_by === 'others'
      ? othersPassport({ issuerId: issuers.own, audience, nowMs: api.deps.clock.now() })
      : api.issuePassport(passportBodyOf(passport, issuers), issuerKey);
  const makeWorld = async (): Promise<World> => {
    const gateIds = {
      'the gate': await makeGate(),
      'another gate': hasEarlier(decisionCase) ? (await api.createGate({}, key)).gate_id : null,
      'no gate': null,
    };
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
    }[circumstance]();
    expect(reply.status).toBe(200);
  }
}
