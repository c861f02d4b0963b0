import type { WebhookEvent } from '../../model/webhook.ts';
import type { ApprovalAnswer } from './approval.ts';
import type { WebhookData } from './webhook-events.ts';

const passport_id = 'pass_00000000000000000000000000';
const gate_id = 'gate_00000000000000000000000000';
const attestation_id = 'att_00000000000000000000000000';
const agent_id = 'sample-agent';
const requested: ApprovalAnswer = {
  approval_id: 'appr_00000000000000000000000000',
  approval_url: 'https://trust.example.com/console/approvals/appr_00000000000000000000000000',
  approval_api_url: 'https://trust.example.com/v1/approvals/appr_00000000000000000000000000',
  status: 'pending',
  passport_id,
  agent_id,
  user: null,
  gate_id,
  request_hash: `sha256:${'0'.repeat(64)}`,
  permission_key: 'orders:create',
  amount_usd: 250,
  display: {
    title: 'Order 20 chairs',
    lines: [{ label: 'Supplier', value: 'Sample Furniture' }],
    url: 'https://shop.example.com/orders/20',
  },
  condition: null,
  created_at: '2026-01-01T00:00:00.000Z',
  expires_at: '2026-01-01T01:00:00.000Z',
  resolved_at: null,
  resolved_by: null,
  note: null,
  answers: [],
};

const samples: { readonly [Event in WebhookEvent]: WebhookData<Event> } = {
  'passport.verified': { passport_id, agent_id, gate_id, decision: 'allow', reason: null, attestation_id },
  'passport.denied': {
    passport_id,
    agent_id,
    gate_id,
    decision: 'block',
    reason: 'spend_limit_exceeded',
    attestation_id,
  },
  'passport.revoked': {
    passport_id,
    agent_id,
    revoked_at: '2026-01-01T00:00:00.000Z',
    reason: 'unspecified',
  },
  'gate.created': {
    gate_id,
    name: 'Sample gate',
    trust_level: 'L1',
    gate_url: `https://gate.example.com/${gate_id}`,
  },
  'shadow.ended': {
    gate_id,
    policy_hash: `sha256:${'0'.repeat(64)}`,
    base_policy_hash: `sha256:${'1'.repeat(64)}`,
    reason: 'policy_changed',
  },
  'spend_limit.approaching': {
    gate_id,
    passport_id: null,
    wallet_id: null,
    window: 'day',
    limit_usd: 100,
    spent_usd: 80,
    fraction: 0.8,
  },
  'approval.requested': requested,
  'approval.resolved': {
    ...requested,
    status: 'approved',
    resolved_at: '2026-01-01T00:01:00.000Z',
    resolved_by: 'key_00000000000000000000000000',
  },
  'hold.expired': {
    attestation_id,
    gate_id,
    passport_id,
    outcome: null,
    amount_usd: null,
    detail: null,
    reported_at: null,
    hold: { status: 'expired', amount_usd: 5, expires_at: '2026-01-01T01:00:00.000Z' },
    counts_usd: 5,
    refunded_usd: 0,
    record_id: 'att_00000000000000000000000001',
  },
  'outcome.refused': {
    outcome_id: 'out_00000000000000000000000000',
    status: 'refused',
    attestation_id,
    outcome: 'served',
    amount_usd: 7.5,
    detail: null,
    sidecar_id: 'side_00000000000000000000000000',
    reported_at: '2026-01-01T00:10:00.000Z',
    received_at: '2026-01-01T00:10:01.000Z',
    refusal: { code: 'amount_exceeds_hold', message: '7.5 USD is more than the 5 USD that are held.' },
  },
  'mcp_pin.changed': {
    pin_id: 'mpin_00000000000000000000000000',
    pin_url: 'https://trust.example.com/console/mcp-pins/mpin_00000000000000000000000000',
    gate_id,
    upstream: 'https://tools.example.com/mcp',
    tool: 'search',
    status: 'changed',
    change: 'changed',
    resembles: null,
    hash: `sha256:${'0'.repeat(64)}`,
    new_hash: `sha256:${'1'.repeat(64)}`,
    first_seen_at: '2026-01-01T00:00:00.000Z',
    changed_at: '2026-01-02T00:00:00.000Z',
    resolved_at: null,
    resolved_by: null,
  },
  'history.regressed': {
    generation: 'gen_00000000000000000000000000000000',
    missing: { changes: 2, chains: 1, records: 40, entries: 0 },
  },
};

/**
 * A sample of each event (contract §14) with ids of nothing, for tests of a receiver and for the
 * documentation.
 */
export const sampleData = (event: WebhookEvent): Readonly<Record<string, unknown>> => samples[event];
