import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/compile';

/**
 * What the control plane told a sidecar, in words that only the control plane reads and that only it can
 * write: `mac` is by a key that lies outside its database. The sidecar keeps receipts and shows them again,
 * so that a database which lacks what was told is found out (contract §17).
 */
export const Receipt = Type.Object({
  /** JSON of a ToldHistory. */
  text: Type.String({ maxLength: 32 * 1024 }),
  mac: Type.String({ maxLength: 64 }),
});
export type Receipt = Static<typeof Receipt>;

/** Chains in one receipt: some 8 KB of text. */
export const receiptChainsMax = 64;
/** Receipts in one report. */
export const reportReceiptsMax = 32;

const Revision = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });
const common = {
  /** Whose sidecar was told. */
  account_id: Type.String(),
  /** The history in which it was true. */
  generation: Type.String(),
};

const ToldHistory = Type.Union([
  Type.Object({
    ...common,
    feeds: Type.Object({
      account: Type.Tuple([Revision, Type.String()]),
      global: Type.Tuple([Revision, Type.String()]),
    }),
  }),
  Type.Object({
    ...common,
    /** Chain, the place of its last record, and the hash of that. */
    chains: Type.Array(Type.Tuple([Type.String(), Revision, Type.String()]), { maxItems: receiptChainsMax }),
  }),
]);
export type ToldHistory = Static<typeof ToldHistory>;
const toldHistory = Compile(ToldHistory);

/** Null for text of a later version. */
export function parseToldHistory(text: string): ToldHistory | null {
  const told: unknown = JSON.parse(text);
  return toldHistory.Check(told) ? told : null;
}

export const HistoryAnswer = Type.Object({
  generation: Type.String(),
  /** `regressed`: the database lacks what was told to some sidecar. */
  state: Type.Enum(['whole', 'regressed']),
});
export type HistoryAnswer = Static<typeof HistoryAnswer>;
