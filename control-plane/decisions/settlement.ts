import type { FirstPermit } from '../../shared/decision/run.ts';
import type {
  AccountId,
  ApprovalId,
  AttestationId,
  GateId,
  PassportId,
  SidecarId,
} from '../../shared/model/ids.ts';
import type { MicroUsd } from '../../shared/model/money.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { HeldUnits } from '../book/held-units.ts';

/** An idempotency key with its scope (contract §5). */
export interface PermitKey {
  readonly passportId: PassportId;
  /**
   * The gate, or without one the requesting account. A passport visits many gates: an answer of one must not
   * be replayed at another, nor block a request there.
   */
  readonly scopeId: GateId | AccountId;
  readonly idempotencyKey: string;
}

export type SettlementId = AttestationId | ApprovalId;
export type SettlementSource = SidecarId | 'control-plane';

/** A settlement that takes effect with this transaction. */
export interface NewSettlement {
  readonly id: SettlementId;
  /** Null: the request has no key. */
  readonly key: PermitKey | null;
  readonly requestHash: string;
  /** Answer of a PERMIT, now and for each copy of the request. */
  readonly answer: Pick<FirstPermit, 'constraintsEvaluated' | 'pii'> & {
    readonly amountMicroUsd: MicroUsd | null;
    readonly holdExpiresAtMs: UnixMillis | null;
  };
  readonly source: SettlementSource;
  /** As in `ClaimQuestion`, in case the key is claimed. */
  readonly readerId: AttestationId;
  readonly askedAtMs: UnixMillis;
  /** What a void frees: leases of the sidecar, or units that the control plane took from the ledger. */
  readonly took: readonly number[];
  readonly held: readonly HeldUnits[];
}

/** A request's question about settlements of others. */
export interface ClaimQuestion extends Pick<NewSettlement, 'key' | 'requestHash' | 'source'> {
  /** Id of the reading, used for nothing else; voiding it voids the reading. */
  readonly readerId: AttestationId;
  /**
   * Time of the decision that asks for the key. A key that expires after it is not free for this request;
   * otherwise a copy sent before the expiry and delivered after it would get a second PERMIT.
   */
  readonly askedAtMs: UnixMillis;
}

/** The PERMIT that owns a key. */
export interface ClaimedPermit extends FirstPermit {
  readonly requestHash: string;
}
