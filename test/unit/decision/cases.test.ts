import { describe, expect, it } from 'vitest';
import { encodeBase64url } from '../../../shared/crypto/base64url.ts';
import { chooseEd25519 } from '../../../shared/crypto/choose-ed25519.ts';
import { readForeignKeys } from '../../../shared/crypto/foreign-key.ts';
import { keyset, thumbprint } from '../../../shared/crypto/keyset.ts';
import { signPassportToken } from '../../../shared/crypto/passport-token.ts';
import { compileGate, noGate } from '../../../shared/decision/compile-gate.ts';
import type { PassportFacts, PassportStanding } from '../../../shared/decision/facts.ts';
import { type CatalogTerms, catalogTerms } from '../../../shared/model/catalog.ts';
import { checkNames, decisionReasons } from '../../../shared/model/decision.ts';
import { makeId } from '../../../shared/model/ids.ts';
import type { PassportClaims } from '../../../shared/model/passport-claims.ts';
import { isGrantablePermission } from '../../../shared/model/permission.ts';
import { toSeconds, type UnixMillis } from '../../../shared/model/time.ts';
import { ForeignIssuerTable } from '../../../shared/verification/foreign-issuers.ts';
import { admitOfOthers, openOfOthers } from '../../../shared/verification/verify-foreign-token.ts';
import { admitToken, openToken } from '../../../shared/verification/verify-token.ts';
import { CatalogPublication, parseCatalogPublication } from '../../../shared/wire/catalog.ts';
import { noConstraints, parseConstraints } from '../../../shared/wire/constraints.ts';
import { parseFederation } from '../../../shared/wire/federation.ts';
import { renderPassportClaims } from '../../../shared/wire/passport-claims.ts';
import { shapeReader } from '../../../shared/wire/shape.ts';
import { DecideStage } from '../../support/cases/decide-stage.ts';
import { type DecisionCase, type Presenter, passportLifeMs } from '../../support/cases/decision-case.ts';
import { forgeToken } from '../../support/cases/forge-token.ts';
import { expectAnswer, fillInIssuers } from '../../support/cases/load-cases.ts';
import { agentJwk } from '../../support/cases/make-proof.ts';
import { federationOf, othersToken } from '../../support/cases/others.ts';
import { playEarlier } from '../../support/cases/play-case.ts';
import { decisionCases } from '../../support/cases/read-cases.ts';

const issuedAtMs = Date.UTC(2026, 10, 2, 9, 0, 0) as UnixMillis;
const ed25519 = chooseEd25519();
const signer = ed25519.signer(new Uint8Array(32).fill(1));
const kid = thumbprint(signer.publicKey);

const id = <P extends Parameters<typeof makeId>[0]>(prefix: P, byte: number) =>
  makeId(prefix, issuedAtMs, new Uint8Array(10).fill(byte));
const accounts = { own: id('acct', 1), foreign: id('acct', 2) };
const issuers = { own: id('iss', 1), foreign: id('iss', 2) };

function tokenOf({ passport, forgery }: DecisionCase): string {
  const claims: PassportClaims = {
    passportId: id('pass', 1),
    issuerId: issuers[passport.issued_by === 'foreign' ? 'foreign' : 'own'],
    issuerDomain: null,
    accountId: accounts[passport.issued_by === 'foreign' ? 'foreign' : 'own'],
    mode: passport.mode,
    agentId: 'agent-1',
    agentName: 'Agent 1',
    permissions: passport.permissions.filter(isGrantablePermission),
    trustTier: passport.trust_tier,
    constraints: parseConstraints(passport.constraints, { param: 'constraints', of: 'passport' }),
    hasWallet: false,
    issuedAtS: toSeconds(issuedAtMs),
    notBeforeS: toSeconds(issuedAtMs),
    expiresAtS: toSeconds((issuedAtMs + passportLifeMs) as UnixMillis),
    publicKey: `ed25519:${agentJwk.x}`,
    owner: null,
  };
  const token = signPassportToken(renderPassportClaims(claims), { kid, signer });
  return forgery === null ? token : forgeToken(forgery, token, signer.publicKey);
}

const standingOf = ({ circumstances, stateAgeMs }: DecisionCase): PassportStanding => ({
  status: circumstances.includes('passport revoked')
    ? 'revoked'
    : circumstances.includes('passport suspended')
      ? 'suspended'
      : 'active',
  isIssuerSuspended: circumstances.includes('issuer suspended'),
  isAccountSuspended: circumstances.includes('account suspended'),
  isKeyCompromised: circumstances.includes('key compromised'),
  isInWallet: false,
  stateAgeMs,
});

/** A token of an issuer of others that the account has registered. */
function verifyOfOthers(decisionCase: DecisionCase): PassportFacts {
  const { passport } = decisionCase;
  const wanted = parseFederation(federationOf(passport, 'gates'), passport.trust_tier);
  const table = new ForeignIssuerTable(accounts.own);
  table.put({
    issuerId: issuers.own,
    accountId: accounts.own,
    mode: passport.mode,
    version: 1,
    federation: wanted.federation,
    keys: readForeignKeys(wanted.jwks, wanted.federation.algorithms),
    keysAtMs: null,
    hasWallets: false,
  });
  const token = othersToken({ subject: 'agent-1', audience: 'gates', nowMs: issuedAtMs });
  const opened = openOfOthers(token, table.knownAt(null), decisionCase.mode);
  if (opened.kind === 'refused') return opened;
  const { open, key } = opened;
  const admitted = admitOfOthers(opened, key.verify(Buffer.from(open.signedText), open.signature));
  return admitted.kind === 'refused' ? admitted : { ...admitted, standing: standingOf(decisionCase) };
}

function verify(decisionCase: DecisionCase): PassportFacts {
  if (decisionCase.passport.issued_by === 'others') return verifyOfOthers(decisionCase);
  const keys = keyset(ed25519, [
    {
      kid,
      purpose: 'passport',
      publicKey: encodeBase64url(signer.publicKey),
      notBeforeMs: issuedAtMs,
      retiredAtMs: null,
      compromised: decisionCase.circumstances.includes('key compromised'),
    },
  ]);
  const opened = openToken(tokenOf(decisionCase), keys);
  if (opened.kind === 'refused') return opened;
  const { open, key } = opened;
  const admitted = admitToken(opened, key.verify(open.signingInput, open.signature));
  if (admitted.kind === 'refused') return admitted;
  return { ...admitted, standing: standingOf(decisionCase) };
}

const readPublication = shapeReader(CatalogPublication);

const termsOf = (catalog: unknown): CatalogTerms =>
  catalogTerms(parseCatalogPublication(readPublication(catalog)).permissions);

const policyOf = ({ gate, mode }: DecisionCase) =>
  gate === null
    ? noGate({ accountId: accounts.own, mode })
    : compileGate(
        {
          gateId: id('gate', 1),
          accountId: accounts.own,
          mode,
          version: 1,
          policyVersion: 1,
          policyHash: null,
          trustLevel: gate.trust_level,
          constraints: parseConstraints(fillInIssuers(gate.constraints, issuers), {
            param: 'constraints',
            of: 'gate',
          }),
        },
        gate.catalog === null ? null : termsOf(gate.catalog),
      );

/** Another passport is the same but for its id. */
function verifyAs(by: Presenter, decisionCase: DecisionCase): PassportFacts {
  const facts = verify(decisionCase);
  if (by === 'the passport' || facts.kind === 'refused') return facts;
  return { ...facts, passport: { ...facts.passport, passportId: id('pass', 2) } };
}

async function play(decisionCase: DecisionCase) {
  const { gate, mode, sinceIssueMs, circumstances } = decisionCase;
  const allWell: DecisionCase = { ...decisionCase, forgery: null, circumstances: [], stateAgeMs: 0 };
  const bare = {
    gateId: id('gate', 2),
    accountId: accounts.own,
    mode,
    version: 1,
    policyVersion: 1,
    policyHash: null,
    trustLevel: 'L1',
  } as const;
  const stage = new DecideStage({
    policies: {
      'the gate': policyOf(decisionCase),
      'another gate': compileGate({ ...bare, constraints: noConstraints }),
      'no gate': noGate({ accountId: accounts.own, mode }),
    },
    factsOf: (by) => verifyAs(by, allWell),
    tokenOf: () => tokenOf(allWell),
    nowMs: (issuedAtMs + (sinceIssueMs ?? 0)) as UnixMillis,
    isCutOff: false,
  });
  const request = await playEarlier(stage, decisionCase);
  stage.change({
    factsOf: (by) => verifyAs(by, decisionCase),
    isCutOff: circumstances.includes('control plane away'),
  });
  return stage.ask({ by: 'the passport', at: gate === null ? 'no gate' : 'the gate', request });
}

describe('decide', () => {
  it.each(decisionCases)('$name', async (decisionCase) => {
    expectAnswer(await play(decisionCase), decisionCase.want);
  });
});

describe('the cases', () => {
  it('have names of their own', () => {
    const names = decisionCases.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
  });

  /**
   * Keys of other issuers grow too old where a clock can be moved (test/api/federation.test.ts). The other
   * one is given by the store of approvals.
   */
  const givenElsewhere = [
    'issuer_keys_stale',
    'approvals_pending_exceeded',
    // A wallet is known to its host alone (test/api/wallets.test.ts).
    'wallet_limit_exceeded',
    'wallet_frozen',
  ];

  it('give every reason that there is', () => {
    const given = new Set(decisionCases.map(({ want }) => want.reason));
    const missing = decisionReasons.filter((reason) => !given.has(reason));
    expect(missing).toEqual(givenElsewhere);
  });

  it('list checks in the order in which they run', () => {
    for (const { want } of decisionCases) {
      expect(want.constraints_evaluated).toEqual(
        checkNames.filter((name) => want.constraints_evaluated.includes(name)),
      );
    }
  });
});
