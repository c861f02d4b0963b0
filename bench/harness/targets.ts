/** What the project wants of itself, by the numbers that the tables, the charts and README.md use. */
export interface Target {
  readonly what: string;
  readonly wanted: number;
  /** What would be more than was asked for. */
  readonly beyond: number;
  /** Whether the figure has to reach `wanted` or must not pass it. */
  readonly bound: 'at least' | 'at most';
  /** Of the figure; empty for a ratio. */
  readonly unit: '' | 'ms' | 'calls' | 'records/s' | 'outcomes/s' | 'bytes' | 'MiB';
}

const atLeast = (what: string, wanted: number, beyond: number, unit: Target['unit'] = ''): Target => ({
  ...{ what, wanted, beyond, bound: 'at least', unit },
});
const atMost = (what: string, wanted: number, beyond: number, unit: Target['unit'] = ''): Target => ({
  ...{ what, wanted, beyond, bound: 'at most', unit },
});

export const targets = {
  P1: atLeast('warm decisions / HAProxy that verifies an ES256 token and counts in a stick table', 4, 6),
  P2: atLeast('warm decisions / bare uWebSockets.js that parses the same body', 0.5, 0.7),
  P3: atLeast('warm decisions / Fastify + jose + a Redis script', 8, 15),
  P4: atLeast('warm decisions / Cerbos with an EdDSA token and one condition', 15, 20),
  P5: atLeast('cold decisions, each passport unseen / HAProxy ES256', 1, 2),
  P6: atLeast('signature checks by the pool / crypto.verify', 1.9, 3.5),
  P7: atLeast('warm decisions with records / without', 0.85, 0.95),
  P8: atLeast('warm decisions with a million revoked passports / with none', 0.97, 0.99),
  P9: atLeast('warm decisions with Redis and control plane down / healthy', 0.95, 1),
  P10: atLeast('good requests answered beside as much garbage / without', 0.85, 0.95),
  P11: atLeast('records that the control plane commits', 25_000, 40_000, 'records/s'),
  P12: atMost('lease calls per 1,000 warm decisions at a busy gate', 10, 1, 'calls'),
  P13: atLeast('decisions of a compiled gate / cedar-wasm on the same rule', 100, 300),
  P14: atLeast('two listening threads / one, on two cores, generator included', 1.3, 1.6),
  P15: atMost('p99 / p50 at half of the sustained peak, open loop, ten gate changes a second', 8, 4),
  P16: atLeast('check of a passport in process / agent-passport-system', 50, 100),
  P17: atMost('p99 from the answer to a revocation to BLOCK at every one of four sidecars', 50, 10, 'ms'),
  P18: atMost('p99 of discovery among a million entries, of lists among ten million records', 20, 5, 'ms'),
  P19: atLeast('records verified offline / raw SHA-256 and Ed25519', 0.5, 0.8),
  'P19 memory': atMost('memory of an export and of its verification, over none', 64, 32, 'MiB'),
  P20: atLeast('decisions over streams / over single requests', 2.5, 3.5),
  P21: atLeast('decisions in batches of 32 / one by one', 4, 6),
  P22: atLeast('nginx with forward auth / nginx alone', 0.4, 0.6),
  P23: atLeast('decisions in process / the sidecar over HTTP', 6, 9),
  P24: atLeast('goodput of keyed requests at 200 clients / its peak', 0.9, 1),
  P25: atMost('bytes stored per record, table and indexes', 600, 300, 'bytes'),
  P26: atLeast('decisions with a proof of possession / the bare signature', 0.8, 0.9),
  P27: atLeast('warm decisions about a passport of another issuer / about our own', 0.9, 0.97),
  P28: atLeast('cold decisions about ES256 tokens of another issuer / HAProxy ES256', 1, 2),
  P29: atLeast('warm decisions whose amount is held / plain ones', 0.97, 1),
  P30: atLeast('outcomes of held PERMITs that the control plane commits', 20_000, 30_000, 'outcomes/s'),
  P31: atMost('p99 from a decision to a witnessed checkpoint, at 10,000 decisions/s', 15_000, 10_000, 'ms'),
  P32: atLeast('warm decisions about a passport four wallets deep / in none', 0.8, 0.95),
  P33: atLeast('warm decisions with a receipt / plain ones', 0.6, 0.8),
  P34: atLeast('records that a replay decides again', 50_000, 150_000, 'records/s'),
  P35: atLeast('warm decisions with five conditions / without', 0.667, 0.8),
} as const satisfies Readonly<Record<string, Target>>;

export type TargetName = keyof typeof targets;

export const targetNames = Object.keys(targets) as TargetName[];

export const isTargetName = (name: string): name is TargetName => name in targets;

/** For a line of a table: what ours divided by it has to reach. */
export const wantedOf = (name: TargetName): { readonly name: TargetName; readonly wanted: number } => ({
  name,
  wanted: targets[name].wanted,
});

/** A judged figure that is no ratio of two sides. */
export interface Judged {
  readonly target: TargetName;
  readonly figure: number;
  /** Why the figure is not judged, such as other programs on the core; null: it is. */
  readonly disturbed: string | null;
}
