import { type Static, Type } from 'typebox';
import { invalidRequest } from '../../errors/api-error.ts';
import { type HoldStatus, holdStatuses, type ServiceOutcome, serviceOutcomes } from '../../model/hold.ts';
import { limits } from '../../model/limits.ts';
import { amountUsdMax, type MicroUsd, parseUsd, renderUsd } from '../../model/money.ts';
import { renderOptionalTime, renderTime, type UnixMillis } from '../../model/time.ts';
import { bodyReader } from './body.ts';
import { closed, nullable, plainText, Timestamp } from './fields.ts';
import { HoldSeconds } from './hold.ts';
import { pagingQuery } from './paging.ts';

const Amount = Type.Optional(nullable(Type.Number({ minimum: 0, maximum: amountUsdMax })));
const Detail = Type.Optional(nullable(plainText({ maxLength: limits.outcomeDetailCharsMax })));

/** `POST /attestations/:id/outcome`, at both programs. */
export const OutcomeReport = closed({
  outcome: Type.Enum(serviceOutcomes),
  /** What it came to, in dollars. Absent: all that is held. */
  amount: Amount,
  /** For people, in lists. */
  detail: Detail,
});

/** `POST /attestations/:id/hold/extend` */
export const HoldExtension = closed({ expires_in_s: HoldSeconds });

/** `POST /attestations/:id/refund`. Without an amount: all that counts. */
export const RefundRequest = closed({ amount: Amount, reason: Detail });

/** An outcome as its reporter has it. */
export interface GivenOutcome {
  readonly outcome: ServiceOutcome;
  readonly amountMicroUsd: MicroUsd | null;
  readonly detail: string | null;
}

/** Throws `invalid_request`, naming the field. */
export function parseOutcome({
  outcome,
  amount = null,
  detail = null,
}: Static<typeof OutcomeReport>): GivenOutcome {
  const amountMicroUsd = parseAmount(amount, 'amount');
  if (outcome === 'failed' && amountMicroUsd !== null && amountMicroUsd > 0)
    throw invalidRequest('amount', 'amount must be left out with "failed": all of it goes back.');
  return { outcome, amountMicroUsd: outcome === 'failed' ? null : amountMicroUsd, detail };
}

const readOutcome = bodyReader(OutcomeReport);

/** The same for a body that no schema has seen. */
export const parseOutcomeBody = (body: unknown): GivenOutcome => parseOutcome(readOutcome(body));

export const parseRefund = ({
  amount = null,
}: Static<typeof RefundRequest>): { readonly amountMicroUsd: MicroUsd | null } => ({
  amountMicroUsd: parseAmount(amount, 'amount'),
});

function parseAmount(amount: number | null, param: string): MicroUsd | null {
  if (amount === null) return null;
  const micro = parseUsd(amount);
  if (micro === null)
    throw invalidRequest(
      param,
      `${param} must be a number of dollars from 0 to 1e9 with at most 6 decimals.`,
    );
  return micro;
}

export const HoldStateAnswer = Type.Object({
  status: Type.Enum(holdStatuses),
  amount_usd: Type.Number(),
  expires_at: Timestamp,
});

/** What a PERMIT counts, and why. */
export const PermitOutcomeAnswer = Type.Object({
  attestation_id: Type.String(),
  gate_id: nullable(Type.String()),
  passport_id: nullable(Type.String()),
  /** Null: none was reported. */
  outcome: nullable(Type.Enum(serviceOutcomes)),
  /** As reported; null: all that was held. */
  amount_usd: nullable(Type.Number()),
  detail: nullable(Type.String()),
  reported_at: nullable(Timestamp),
  /** Null: the PERMIT was not held. */
  hold: nullable(HoldStateAnswer),
  /** What the PERMIT counts now; null: it has no amount. */
  counts_usd: nullable(Type.Number()),
  refunded_usd: Type.Number(),
  /** The last record that refers to the PERMIT. */
  record_id: nullable(Type.String()),
});
export type PermitOutcomeAnswer = Static<typeof PermitOutcomeAnswer>;

export const renderPermitOutcome = (permit: {
  readonly attestationId: string;
  readonly gateId: string | null;
  readonly passportId: string | null;
  readonly reported: {
    readonly outcome: ServiceOutcome;
    readonly amountMicroUsd: MicroUsd | null;
    readonly detail: string | null;
    readonly atMs: UnixMillis;
  } | null;
  readonly hold: {
    readonly status: HoldStatus;
    readonly amountMicroUsd: MicroUsd;
    readonly expiresAtMs: UnixMillis;
  } | null;
  readonly countsMicroUsd: MicroUsd | null;
  readonly refundedMicroUsd: MicroUsd;
  readonly recordId: string | null;
}): PermitOutcomeAnswer => {
  const { reported, hold } = permit;
  return {
    attestation_id: permit.attestationId,
    gate_id: permit.gateId,
    passport_id: permit.passportId,
    outcome: reported?.outcome ?? null,
    amount_usd: usdOrNull(reported?.amountMicroUsd ?? null),
    detail: reported?.detail ?? null,
    reported_at: renderOptionalTime(reported?.atMs ?? null),
    hold:
      hold === null
        ? null
        : {
            status: hold.status,
            amount_usd: renderUsd(hold.amountMicroUsd),
            expires_at: renderTime(hold.expiresAtMs),
          },
    counts_usd: usdOrNull(permit.countsMicroUsd),
    refunded_usd: renderUsd(permit.refundedMicroUsd),
    record_id: permit.recordId,
  };
};

const usdOrNull = (amount: MicroUsd | null): number | null => (amount === null ? null : renderUsd(amount));

/** `GET /holds` */
export const HoldListQuery = Type.Object({
  status: Type.Optional(Type.Enum(holdStatuses)),
  gate_id: Type.Optional(Type.String()),
  ...pagingQuery,
});

export const reportedStatuses = ['waiting', 'refused'] as const;
export type ReportedStatus = (typeof reportedStatuses)[number];

/** `GET /outcomes`: of sidecars, refused or waiting for their PERMITs. */
export const OutcomeListQuery = Type.Object({
  status: Type.Optional(Type.Enum(reportedStatuses)),
  ...pagingQuery,
});

export const ReportedOutcomeAnswer = Type.Object({
  outcome_id: Type.String(),
  status: Type.Enum(reportedStatuses),
  attestation_id: Type.String(),
  outcome: Type.Enum(serviceOutcomes),
  amount_usd: nullable(Type.Number()),
  detail: nullable(Type.String()),
  /** The sidecar that took it. */
  sidecar_id: Type.String(),
  reported_at: Timestamp,
  received_at: Timestamp,
  /** Why it was refused, as the control plane would have answered; null: it waits. */
  refusal: nullable(Type.Object({ code: Type.String(), message: Type.String() })),
});
export type ReportedOutcomeAnswer = Static<typeof ReportedOutcomeAnswer>;

export const renderReportedOutcome = (reported: {
  readonly outcomeId: string;
  readonly attestationId: string;
  readonly given: GivenOutcome;
  readonly sidecarId: string;
  readonly reportedAtMs: UnixMillis;
  readonly receivedAtMs: UnixMillis;
  readonly refusal: { readonly code: string; readonly message: string } | null;
}): ReportedOutcomeAnswer => ({
  outcome_id: reported.outcomeId,
  status: reported.refusal === null ? 'waiting' : 'refused',
  attestation_id: reported.attestationId,
  outcome: reported.given.outcome,
  amount_usd: usdOrNull(reported.given.amountMicroUsd),
  detail: reported.given.detail,
  sidecar_id: reported.sidecarId,
  reported_at: renderTime(reported.reportedAtMs),
  received_at: renderTime(reported.receivedAtMs),
  refusal: reported.refusal,
});
