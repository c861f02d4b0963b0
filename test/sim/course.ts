import { encodeBase64url } from '../../shared/crypto/base64url.ts';
import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import type { Ed25519 } from '../../shared/crypto/ed25519.ts';
import { thumbprint } from '../../shared/crypto/keyset.ts';
import { signPassportToken } from '../../shared/crypto/passport-token.ts';
import type { HoldRule } from '../../shared/model/constraints.ts';
import type { AccountId, PassportId, WalletId } from '../../shared/model/ids.ts';
import { secondMs } from '../../shared/model/time.ts';
import type { CalendarWindowName } from '../../shared/quota/window.ts';
import type { LimitKind } from '../../shared/quota/window-limit.ts';
import type { GateBody, StandingApprovalBody } from '../../shared/wire/sync/sync-schema.ts';
import { numbered } from '../support/data/model-service.ts';
import type { Chance } from './chance.ts';
import { makeStanding } from './course-standing.ts';
import { makeTree, type Tree } from './course-wallets.ts';

export interface Limit {
  readonly kind: LimitKind;
  readonly window: CalendarWindowName;
  /** Requests or micro-USD. */
  readonly limit: number;
  readonly per: 'gate' | 'passport';
}

export interface Gate {
  readonly body: GateBody;
  readonly limits: readonly Limit[];
  readonly costs: boolean;
  readonly holds: HoldRule | null;
}

export interface Passport {
  readonly id: PassportId;
  readonly accountId: AccountId;
  /** The wallet that it was issued into, of which its token says that there is one. */
  readonly walletId: WalletId | null;
  readonly token: string;
  readonly tokenHash: string;
  readonly limits: readonly Limit[];
  readonly costs: boolean;
  standing: 'active' | 'suspended' | 'revoked';
  /** The revision of the global feed that changed it last. */
  changedAtRevision: number;
  changedAtMs: number;
}

/** Where clients go: gates and passports with limits small enough to be met. */
export interface Course {
  readonly accountId: AccountId;
  /** The true time at the start. */
  readonly startsAtMs: number;
  /** After the start: windows end, at least those of a minute. */
  readonly turnsAfterMs: number;
  readonly sidecars: number;
  readonly fsyncMs: number;
  readonly keptMs: number;
  readonly usesBus: boolean;
  readonly recordForm: 1 | 2;
  readonly gates: readonly Gate[];
  readonly passports: readonly Passport[];
  /** Null: there are no wallets. */
  readonly tree: Tree | null;
  /** Null: all sidecars are of one account. */
  readonly elsewhere: Elsewhere | null;
  /** Of one gate, from the start. */
  readonly standing: readonly StandingApprovalBody[];
}

/** One more sidecar, of another account, beside the others on the same tree of wallets. */
export interface Elsewhere {
  readonly accountId: AccountId;
  readonly gates: readonly Gate[];
}

/** The place of the first gate of another account in the steps of a plan. */
export const elsewhereFrom = 10;

export const gateAt = ({ gates, elsewhere }: Course, place: number): Gate | null =>
  (place < elsewhereFrom ? gates[place] : elsewhere?.gates[place - elsewhereFrom]) ?? null;

interface GivenHolds {
  readonly expires_in_s: number;
  readonly on_expiry: HoldRule['onExpiry'];
}

const usd = 1_000_000;
const firstOfMonth = Date.UTC(2027, 2, 1);

export function makeCourse(
  chance: Chance,
  { ofWallets, ofStanding }: { readonly ofWallets: Chance; readonly ofStanding: Chance },
  ed25519: Ed25519,
): Course {
  const size = chance.pick([20, 60, 200]);
  const turnsAtMs = firstOfMonth + chance.pick([7, 61, 3_600, 0, 0]) * 60_000;
  const turnsAfterMs = Math.floor(chance.between(500, chance.pick([8_000, 30_000])));
  const tree = makeTree(size, ofWallets);
  const sidecars = chance.pick([1, 2, 2, 2, 3]);
  return {
    accountId: numbered.account(1),
    // So that windows end meanwhile: those of a minute, an hour, a day or a month.
    startsAtMs: turnsAtMs - turnsAfterMs,
    turnsAfterMs,
    sidecars,
    fsyncMs: chance.pick([0, 50, 50]),
    keptMs: chance.pick([0, 3_600_000]),
    usesBus: chance.happens(0.6),
    recordForm: chance.pick([1, 2, 2, 2]),
    gates: makeGates(size, chance, tree !== null && tree.accountId !== numbered.account(1)),
    passports: [1, 2, 3].map((n) => {
      const isInTree = tree !== null && ofWallets.happens(0.85);
      return makePassport(n, size, chance, {
        ed25519,
        accountId: isInTree ? tree.accountId : numbered.account(1),
        walletId: isInTree ? ofWallets.pick(tree.wallets).walletId : null,
        isPriced: tree?.hasMoney === true,
      });
    }),
    tree,
    // Three machines are enough.
    elsewhere: tree !== null && sidecars < 3 && ofWallets.happens(0.4) ? makeElsewhere(size) : null,
    standing: makeStanding(ofStanding, turnsAtMs - turnsAfterMs),
  };
}

/** `trustsAll`: passports of another account come, too. */
function makeGates(size: number, chance: Chance, trustsAll: boolean): Gate[] {
  const third = Math.ceil(size / 3);
  const holds: GivenHolds = {
    expires_in_s: chance.pick([1, 2, 60]),
    on_expiry: chance.pick(['settle', 'release'] as const),
  };
  const kinds = [
    gate(2, 'L1', { rate_limits: { requests_per_minute: size } }, [
      rate('gate_rate', 'minute', size, 'gate'),
    ]),
    gate(4, 'L2', { rate_limits: { requests_per_hour: third, per: 'passport' } }, [
      rate('gate_rate', 'hour', third, 'passport'),
    ]),
    gate(6, 'L3', { spend_limits: { daily_usd: size }, holds }, [
      rate('gate_spend', 'day', size * usd, 'gate'),
    ]),
    gate(
      8,
      'L1',
      {
        spend_limits: { daily_usd: size, monthly_usd: 2 * size },
        approvals: { above_usd: 2, expires_in_s: chance.pick([60, 600]) },
        holds,
      },
      [rate('gate_spend', 'day', size * usd, 'gate'), rate('gate_spend', 'month', 2 * size * usd, 'gate')],
    ),
    gate(10, 'L1', {}, []),
  ];
  if (!trustsAll) return kinds;
  return kinds.map((each) => {
    const constraints = { ...each.body.constraints, trusted_issuers: ['*'] };
    return { ...each, body: { ...each.body, constraints } };
  });
}

function makeElsewhere(size: number): Elsewhere {
  const accountId = numbered.account(2);
  const trusting = { trusted_issuers: ['*'] };
  const limits = [rate('gate_spend', 'day', size * usd, 'gate')];
  return {
    accountId,
    gates: [
      gate(12, 'L1', trusting, [], accountId),
      gate(14, 'L1', { ...trusting, spend_limits: { daily_usd: size } }, limits, accountId),
    ],
  };
}

const rate = (kind: LimitKind, window: CalendarWindowName, limit: number, per: Limit['per']): Limit => ({
  kind,
  window,
  limit,
  per,
});

function gate(
  n: number,
  trustLevel: GateBody['trust_level'],
  constraints: Readonly<Record<string, unknown>>,
  limits: readonly Limit[],
  accountId = numbered.account(1),
): Gate {
  const body: GateBody = {
    gate_id: numbered.gate(n),
    account_id: accountId,
    mode: 'live',
    version: 1,
    policy_version: 1,
    trust_level: trustLevel,
    constraints,
  };
  const { holds = null } = constraints as { readonly holds?: GivenHolds };
  return {
    body,
    limits,
    costs: limits.some(({ kind }) => kind === 'gate_spend'),
    holds:
      holds === null
        ? null
        : { expiresInMs: holds.expires_in_s * secondMs, onExpiry: holds.on_expiry, overrun: 'refuse' },
  };
}

function makePassport(
  n: number,
  size: number,
  chance: Chance,
  given: Pick<Passport, 'accountId' | 'walletId'> & {
    readonly ed25519: Ed25519;
    /** It is or may come into a wallet that limits money. */
    readonly isPriced: boolean;
  },
): Passport {
  const { ed25519, accountId, walletId, isPriced } = given;
  // The second key that ModelService makes.
  const signer = ed25519.signer(new Uint8Array(32).fill(2));
  const own = chance.pick(['none', 'none', 'rate', 'spend']);
  const third = Math.ceil(size / 3);
  const constraints =
    own === 'rate'
      ? { rate_limits: { requests_per_day: third } }
      : own === 'spend'
        ? { spend_limits: { daily_usd: third } }
        : {};
  const limits =
    own === 'rate'
      ? [rate('passport_rate', 'day', third, 'passport')]
      : own === 'spend'
        ? [rate('passport_spend', 'day', third * usd, 'passport')]
        : [];
  const beganS = firstOfMonth / 1_000 - 86_400;
  const token = signPassportToken(
    {
      iss: numbered.issuer(1),
      sub: `agent-${n}`,
      jti: numbered.passport(n),
      iat: beganS,
      nbf: beganS,
      exp: beganS + 90 * 86_400,
      agent_name: `Agent ${n}`,
      permissions: ['orders:create'],
      trust_tier: 'L3',
      constraints: walletId === null ? constraints : { ...constraints, wallet: true },
      acct: accountId,
      mode: 'live',
      cnf: {
        jwk: {
          kty: 'OKP',
          crv: 'Ed25519',
          x: encodeBase64url(ed25519.signer(new Uint8Array(32).fill(5)).publicKey),
        },
      },
    },
    { kid: thumbprint(signer.publicKey), signer },
  );
  return {
    id: numbered.passport(n),
    accountId,
    walletId,
    token,
    tokenHash: sha256Hex(token),
    limits,
    costs: own === 'spend' || isPriced,
    standing: 'active',
    changedAtRevision: 0,
    changedAtMs: 0,
  };
}
