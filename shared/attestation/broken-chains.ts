import { type Static, Type } from 'typebox';
import { closed } from '../wire/api/fields.ts';

/** Faults of a chain in the database, as an export reports them, with their texts. */
export const chainFaults = {
  missing_at_begin: 'records are missing at its beginning',
  missing_in_middle: 'a record is missing in its middle',
  missing_at_end: 'records are missing at its end, up to the last one that its head row names',
  beyond_head: 'it goes on after the last record that its head row names',
  repeated: 'a sequence number occurs twice',
  link_broken: 'a record does not name the hash of the record before it',
  head_differs: 'its last record is not the one that its head row names',
  behind_log: 'the transparency log has a later record of it',
  log_differs: 'a record is not the one that the transparency log has',
  owner_differs: 'its head row names another account or mode than its passport or gate',
  unreadable: 'a record cannot be read: what it refers to is gone',
} as const;

export type ChainFault = keyof typeof chainFaults;

export interface BrokenChain {
  readonly chainId: string;
  readonly fault: ChainFault;
  /** The first faulty place of the chain. */
  readonly sequence: number;
}

/** The form in an export's end. Readers accept unknown faults, because more may be added. */
export const BrokenAnswer = closed({
  chain_id: Type.String(),
  fault: Type.String({ pattern: '^[a-z_]{1,64}$' }),
  sequence: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
});

export type BrokenAnswer = Static<typeof BrokenAnswer>;

/** Chains named in an end line, which keeps it below 1 MiB, the longest line that verifiers read. */
export const brokenNamedMax = 1_000;

export const renderBroken = ({ chainId, fault, sequence }: BrokenChain): BrokenAnswer => ({
  chain_id: chainId,
  fault,
  sequence,
});

/** For people; an unknown fault is shown as is. */
export const describeBroken = ({ fault }: BrokenAnswer): string =>
  Object.hasOwn(chainFaults, fault) ? chainFaults[fault as ChainFault] : fault;
