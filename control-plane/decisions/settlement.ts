import type { FirstPermit } from '../../shared/decision/run.ts';
import type {
  AccountId,
  ApprovalId,
  AttestationId,
  GateId,
  PassportId,
  SidecarId,
} from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { HeldUnits } from '../quota/held-units.ts';

/** An idempotency key with what it is scoped to (contract §5). */
export interface PermitKey {
  readonly passportId: PassportId;
  /**
   * The gate, or without one the account that asks: a passport goes to many, and what it may do at one of
   * them must neither be paid for at another nor kept from it.
   */
  readonly scopeId: GateId | AccountId;
  readonly idempotencyKey: string;
}

export type SettlementId = AttestationId | ApprovalId;
export type SettlementSource = SidecarId | 'control-plane';

/** A settlement that this transaction makes true. */
export interface NewSettlement {
  readonly id: SettlementId;
  /** Null: the request has none. */
  readonly key: PermitKey | null;
  readonly requestHash: string;
  /** How a PERMIT is answered, now and to each copy of its request. */
  readonly answer: Pick<FirstPermit, 'constraintsEvaluated' | 'pii'>;
  readonly source: SettlementSource;
  /** As in `ClaimQuestion`, for the case that its key is claimed. */
  readonly readerId: AttestationId;
  readonly askedAtMs: UnixMillis;
  /** What its void frees: leases of the sidecar, or units that the control plane took from the ledger. */
  readonly took: readonly number[];
  readonly held: readonly HeldUnits[];
}

/** What a request asks of the settlements of others. */
export interface ClaimQuestion extends Pick<NewSettlement, 'key' | 'requestHash' | 'source'> {
  /**
   * Under which it reads what it finds: an id that it has used for nothing else, and that voids the reading.
   */
  readonly readerId: AttestationId;
  /**
   * When it was decided that the key is asked for: a key that ends later is not free for it. What was on its
   * way before the end, and comes after it, would otherwise be permitted beside its first answer.
   */
  readonly askedAtMs: UnixMillis;
}

/** The PERMIT to which a key belongs. */
export interface ClaimedPermit extends FirstPermit {
  readonly requestHash: string;
}
