import { quotaLimits } from '../../control-plane/book/limits.ts';
import { idDigest } from '../../shared/crypto/id-digest.ts';
import { must } from '../../shared/errors/assert.ts';
import { type WalletLimitName, walletLimits } from '../../shared/model/wallet.ts';
import { type CounterKey, counterKey } from '../../shared/quota/counter.ts';
import { until } from '../support/base/until.ts';
import type { Cap } from './caps.ts';
import { amountsUsd, askedAboveUsd, type Course, type Lane, type Maker, type Runner } from './course.ts';

/** A wallet of a course, and who draws on it. */
export interface CourseWallet {
  readonly walletId: string;
  readonly name: string;
  readonly passportIds: ReadonlySet<string>;
  /** It never has too little, so that whether it is frozen shows by its PERMITs alone. */
  readonly isAmple: boolean;
}

interface Node {
  readonly name: string;
  readonly above: string | null;
  readonly isReserved?: true;
  /** Its passports ask last, when all others have taken what they can get. */
  readonly isLate?: true;
  readonly isAmple?: true;
  /** Requests, or dollars. */
  readonly limits: Readonly<Partial<Record<WalletLimitName, number>>>;
}

const cents = (usd: number): number => Math.round(usd * 100) / 100;

/**
 * A company, four deep on both sides: what it has in common, and shares that lie in one another. Each sum of
 * shares leaves its parent a pot, so that siblings have something to pass.
 */
const tree = (size: number): readonly Node[] => [
  { name: 'company', above: null, limits: { daily_usd: size } },
  { name: 'division', above: 'company', limits: { daily_usd: cents(0.4 * size) } },
  { name: 'team', above: 'division', limits: { requests_per_minute: Math.ceil(size / 6) } },
  { name: 'run', above: 'team', limits: {} },
  { name: 'trial', above: 'company', limits: { total_usd: cents(0.1 * size) } },
  { name: 'share', above: 'company', isReserved: true, limits: { daily_usd: cents(0.3 * size) } },
  { name: 'share of the share', above: 'share', isReserved: true, limits: { daily_usd: cents(0.2 * size) } },
  {
    name: 'last share',
    above: 'share of the share',
    isReserved: true,
    isLate: true,
    limits: { daily_usd: cents(0.1 * size) },
  },
  { name: 'ample', above: null, isAmple: true, limits: { total_usd: 1_000_000 } },
];

/** A passport in each wallet, at least. */
const passportsMin = tree(0).length;
/** So many passports are made at once: the service answers administrators one after the other. */
const madeAtOnce = 16;

/** Wallets without anybody in them. */
export interface Tree {
  readonly nodes: readonly Node[];
  /** By name. */
  readonly ids: ReadonlyMap<string, string>;
  readonly madeAtMs: number;
}

/** Null: the service knows no wallets. */
export async function makeTree({ createWallet }: Maker, size: number): Promise<Tree | null> {
  if (createWallet === undefined) return null;
  const nodes = tree(size);
  const ids = new Map<string, string>();
  for (const { name, above, isReserved, limits } of nodes) {
    const id = await createWallet({
      name,
      limits,
      ...(above === null ? {} : { parent_wallet_id: must(ids.get(above), 'the parent is made first') }),
      ...(isReserved === true && { share: 'reserved' }),
    });
    ids.set(name, id);
  }
  return { nodes, ids, madeAtMs: Date.now() };
}

/**
 * Puts so many passports into a tree, at gates that have no limits: one asks people about large sums, one
 * holds money, and one is another account's. Ours are L3: whoever is cut off from the control plane blocks
 * after five seconds, so that a wallet that is frozen is so for all by then. A gate of others trusts ours
 * less.
 */
export async function walletCourse(make: Maker, made: Tree | null, passports: number): Promise<Course> {
  if (made === null) return { lanes: [], caps: [], wallets: [] };
  const { nodes, ids, madeAtMs } = made;
  // By then nobody can say of a passport that a wallet has changed after its coming.
  await until(() => Date.now() > madeAtMs + quotaLimits.replicaClockLeewayMs, {
    what: 'wallets of some age',
  });
  const idOf = ({ name }: Node) => must(ids.get(name), 'every wallet is made');
  const runners = new Map<Node, Runner[]>(nodes.map((node) => [node, []]));
  const places = Array.from(
    { length: Math.max(passports, passportsMin) },
    (_, place) => nodes[place % nodes.length] as Node,
  );
  while (places.length > 0) {
    const some = places.splice(0, madeAtOnce);
    await Promise.all(
      some.map(async (node) => {
        const walletId = idOf(node);
        const runner = await make.issuePassport({ wallet_id: walletId, trust_tier: 'L3' });
        runners.get(node)?.push({ ...runner, walletId });
      }),
    );
  }
  const below = (node: Node): readonly Node[] => [
    node,
    ...nodes.filter(({ above }) => above === node.name).flatMap(below),
  ];
  const passportsOf = (of: readonly Node[]): ReadonlySet<string> =>
    new Set(of.flatMap((node) => runners.get(node) ?? []).map(({ id }) => id));
  const of = (isLate: boolean): readonly Runner[] =>
    nodes.filter((node) => (node.isLate === true) === isLate).flatMap((node) => runners.get(node) ?? []);
  return {
    lanes: await lanesFor(make, { early: of(false), late: of(true) }),
    caps: nodes
      .filter(({ isAmple }) => isAmple !== true)
      .flatMap((node) => capsOf(node, { nodes, below, passportsOf, walletId: idOf(node) })),
    wallets: nodes.map((node) => ({
      walletId: idOf(node),
      name: node.name,
      passportIds: passportsOf(below(node)),
      isAmple: node.isAmple === true,
    })),
  };
}

async function lanesFor(
  make: Maker,
  { early, late }: { readonly early: readonly Runner[]; readonly late: readonly Runner[] },
): Promise<readonly Lane[]> {
  const holds = { expires_in_s: 60, on_expiry: 'release', overrun: 'charge' };
  const approvals = { above_usd: askedAboveUsd, expires_in_s: 2 };
  const shop = await make.createGate({ trust_level: 'L3', constraints: { approvals } });
  const held = await make.createGate({ trust_level: 'L3', constraints: { holds } });
  const all = [...early, ...late];
  const lanes: Lane[] = [
    { gateId: shop, passports: early, amountsUsd, asksAboveUsd: askedAboveUsd },
    { gateId: held, passports: early, amountsUsd, asksAboveUsd: null, holds: { overrun: 'charge' } },
    { gateId: shop, passports: late, isLate: true, amountsUsd, asksAboveUsd: askedAboveUsd },
  ];
  if (make.foreign === undefined) return lanes;
  const gateId = await make.foreign.createGate({
    constraints: { trusted_issuers: ['*'], holds: { expires_in_s: 60 } },
  });
  const { servers } = make.foreign;
  const foreign = { gateId, amountsUsd, asksAboveUsd: null, holds: { overrun: 'refuse' }, servers } as const;
  return [
    ...lanes,
    { passports: early, ...foreign },
    // Theirs is what is left, when all others have taken what they can get.
    { passports: all, isLate: true, ...foreign },
  ];
}

/** Each limit of a wallet as a whole, and what its children with shares leave to all others. */
function capsOf(
  node: Node,
  by: {
    readonly nodes: readonly Node[];
    readonly below: (node: Node) => readonly Node[];
    readonly passportsOf: (of: readonly Node[]) => ReadonlySet<string>;
    readonly walletId: string;
  },
): readonly Cap[] {
  const key = idDigest(by.walletId);
  const inside = by.below(node);
  return (Object.keys(node.limits) as WalletLimitName[]).flatMap((limitName): Cap[] => {
    const { kind, window } = walletLimits[limitName];
    const unit = kind === 'wallet_spend' ? 1_000_000 : 1;
    const capOf = (name: string, units: number, of: readonly Node[], counter: CounterKey): Cap => ({
      name,
      kind,
      window,
      limit: Math.round(units * unit),
      gateId: null,
      passportId: null,
      wallet: {
        counter,
        passportIds: by.passportsOf(of),
        isLate: of.some(({ isLate }) => isLate === true),
        isReserved: node.isReserved === true,
      },
    });
    const limit = node.limits[limitName] ?? 0;
    const whole = capOf(`wallet: ${node.name}`, limit, inside, `${kind}:${key}` as CounterKey);
    const shares = by.nodes.filter(
      ({ above, isReserved, limits }) =>
        above === node.name && isReserved === true && limits[limitName] !== undefined,
    );
    if (shares.length === 0) return [whole];
    const setAside = shares.reduce((sum, { limits }) => sum + (limits[limitName] ?? 0), 0);
    const apart = new Set(shares.flatMap(by.below));
    const rest = inside.filter((each) => !apart.has(each));
    const pot = counterKey({ kind, wallet: key, lane: 'pot' });
    return [whole, capOf(`wallet: ${node.name}, what no share has`, limit - setAside, rest, pot)];
  });
}
