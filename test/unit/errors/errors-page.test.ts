import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { catalogue } from '../../../shared/errors/catalogue.ts';
import { ErrorAnswer } from '../../../shared/wire/api/error.ts';

/** The closed list of contract §12, written out: what clients branch on changes here first. */
const closedList = [
  ...['invalid_request', 'invalid_json', 'body_too_large', 'unauthorized', 'login_failed', 'totp_required'],
  ...['insufficient_scope', 'account_suspended', 'cross_site_request', 'not_an_approver', 'passkey_required'],
  ...['passkey_refused', 'passport_not_found', 'gate_not_found', 'shadow_not_found', 'catalog_not_found'],
  ...['backtest_not_found', 'policy_not_found'],
  ...['issuer_not_found', 'template_not_found', 'attestation_not_found', 'approval_not_found'],
  ...['hold_not_found', 'mcp_pin_not_found', 'wallet_not_found', 'webhook_not_found', 'channel_not_found'],
  ...['delivery_not_found', 'api_key_not_found', 'account_not_found', 'user_not_found', 'session_not_found'],
  ...['passkey_not_found', 'invitation_not_found', 'route_not_found', 'agent_id_conflict'],
  ...['passport_state_conflict', 'approval_already_resolved', 'approval_already_answered'],
  ...['mcp_pin_state_conflict', 'mcp_pins_full', 'outcome_conflict', 'amount_exceeds_hold'],
  ...[
    'spend_limit_exceeded',
    'backtest_running',
    'channel_name_conflict',
    'email_conflict',
    'last_owner',
    'user_state_conflict',
    'idempotency_conflict',
  ],
  ...['proof_not_ready', 'precondition_failed', 'unsupported_media_type', 'rate_limited', 'internal_error'],
  ...['overloaded', 'service_unavailable'],
];

const page = readFileSync(new URL('../../../docs/errors.md', import.meta.url), 'utf8');
const rows = [...page.matchAll(/^\| `(\w+)` \| (\d{3}) \| (.+?) \| (.+?) \|$/gm)].map(
  ([, code, status, meaning, advice]) => ({ code, status: Number(status), meaning, advice }),
);

describe('the closed list of errors', () => {
  it('is the catalogue', () => {
    expect(Object.keys(catalogue)).toEqual(closedList);
  });

  it('matches the error body', () => {
    expect(ErrorAnswer.properties.error.properties.code.enum).toEqual(closedList);
  });

  it('is what docs/errors.md explains: code, status and meaning, and something to do about each', () => {
    expect(rows.map(({ code, status, meaning }) => ({ code, status, meaning }))).toEqual(
      Object.entries(catalogue).map(([code, { status, message }]) => ({ code, status, meaning: message })),
    );
    for (const { code, advice } of rows) expect(advice, code).toMatch(/^[A-Z].{15,}\.$/);
  });

  it('shows on its page the body that is answered', () => {
    const [, example = ''] = /```json\n([\s\S]*?)```/.exec(page) ?? [];
    const { error } = JSON.parse(example);
    expect(Object.keys(error)).toEqual(['code', 'message', 'status', 'request_id']);
    expect(rows).toContainEqual(
      expect.objectContaining({ code: error.code, status: error.status, meaning: error.message }),
    );
  });
});
