import { type Static, type TObject, Type } from 'typebox';
import { decisionReasons } from '../../model/decision.ts';
import { shadowEnds } from '../../model/gate.ts';
import { trustTiers } from '../../model/trust-tier.ts';
import type { WebhookEvent } from '../../model/webhook.ts';
import { ApprovalAnswer } from './approval.ts';
import { nullable, Timestamp } from './fields.ts';
import { McpPinListItem } from './mcp-pin.ts';
import { PermitOutcomeAnswer, ReportedOutcomeAnswer } from './outcome.ts';

/** The body of a delivery (contract §14). */
const eventOf = <Event extends WebhookEvent, Data extends TObject>(event: Event, data: Data) =>
  Type.Object({
    event: Type.Literal(event),
    timestamp: Type.String({ description: 'When it happened.' }),
    data,
  });

/** The body of each event (contract §14). */
export const webhookBodies = {
  'passport.verified': eventOf(
    'passport.verified',
    Type.Object({
      passport_id: Type.String(),
      agent_id: nullable(Type.String()),
      gate_id: nullable(Type.String()),
      decision: Type.Literal('allow'),
      reason: Type.Null(),
      attestation_id: Type.String(),
    }),
  ),
  'passport.denied': eventOf(
    'passport.denied',
    Type.Object({
      /** Null, like `agent_id`, if the token did not verify. */
      passport_id: nullable(Type.String()),
      agent_id: nullable(Type.String()),
      gate_id: nullable(Type.String()),
      decision: Type.Literal('block'),
      reason: Type.Enum(decisionReasons),
      attestation_id: Type.String(),
    }),
  ),
  'passport.revoked': eventOf(
    'passport.revoked',
    Type.Object({
      passport_id: Type.String(),
      agent_id: Type.String(),
      revoked_at: Timestamp,
      reason: Type.String(),
    }),
  ),
  'gate.created': eventOf(
    'gate.created',
    Type.Object({
      gate_id: Type.String(),
      name: Type.String(),
      trust_level: Type.Enum(trustTiers),
      gate_url: Type.String(),
    }),
  ),
  'shadow.ended': eventOf(
    'shadow.ended',
    Type.Object({
      gate_id: Type.String(),
      policy_hash: Type.String(),
      base_policy_hash: Type.String(),
      reason: Type.Enum(shadowEnds),
    }),
  ),
  'spend_limit.approaching': eventOf(
    'spend_limit.approaching',
    Type.Object({
      gate_id: nullable(Type.String()),
      passport_id: nullable(Type.String()),
      /** Null: of a limit of a gate or passport. */
      wallet_id: nullable(Type.String()),
      window: Type.Enum(['hour', 'day', 'month', 'total']),
      limit_usd: Type.Number(),
      spent_usd: Type.Number(),
      fraction: Type.Number(),
    }),
  ),
  'approval.requested': eventOf('approval.requested', ApprovalAnswer),
  'approval.resolved': eventOf('approval.resolved', ApprovalAnswer),
  'hold.expired': eventOf('hold.expired', PermitOutcomeAnswer),
  'outcome.refused': eventOf('outcome.refused', ReportedOutcomeAnswer),
  'mcp_pin.changed': eventOf('mcp_pin.changed', McpPinListItem),
  'history.regressed': eventOf(
    'history.regressed',
    Type.Object({
      generation: Type.String(),
      missing: Type.Object({
        changes: Type.Integer(),
        chains: Type.Integer(),
        records: Type.Integer(),
        entries: Type.Integer(),
      }),
    }),
  ),
} as const satisfies Readonly<Record<WebhookEvent, TObject>>;

/** The data of an event, without its name and time. */
export type WebhookData<Event extends WebhookEvent> = Static<(typeof webhookBodies)[Event]>['data'];
