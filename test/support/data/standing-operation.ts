import type { Operation, Schema } from '../../../control-plane/openapi/document.ts';

/** Whether a passport stands (contract §16), which a sidecar alone answers. `check`: who asks it likewise. */
export function standingOperation(check: Operation): Operation {
  const { 200: _, 409: _conflict, ...refusals } = check.responses;
  const media = (name: string) => ({
    'application/json': { schema: { $ref: `#/components/schemas/${name}` } },
  });
  return {
    ...{
      operationId: 'readStanding',
      summary: 'Ask whether a passport stands at a gate',
      tags: ['Enforcement'],
    },
    description:
      'Looks at the passport alone, as the first checks of a decision do. Nothing is decided, counted or recorded. With `wait_ms` a passport that stands is ' +
      'answered when it has ended, within the bound of a revocation, or when that time is over.\n\nNeeds a key with the scope `enforcement:check`.',
    security: check.security,
    parameters: check.parameters,
    requestBody: { required: true, content: media('StandingQuestion') },
    responses: {
      200: {
        description: 'Whether it stands.',
        headers: { 'X-Request-Id': { $ref: '#/components/headers/X-Request-Id' } },
        content: media('Standing'),
      },
      ...refusals,
    },
  } as Operation;
}

const text = (description: string) => ({ type: ['string', 'null'], description });

export const standingSchemas: Readonly<Record<string, Schema>> = {
  StandingQuestion: {
    type: 'object',
    required: ['passport'],
    additionalProperties: false,
    properties: {
      passport: { type: 'string', description: 'The token of the agent.' },
      wait_ms: {
        ...{ type: ['integer', 'null'], minimum: 0, maximum: 30_000, default: 0 },
        description: 'How long to wait for the end of a passport that stands.',
      },
    },
    examples: [{ passport: 'eyJhbGciOi…', wait_ms: 10_000 }],
  },
  Standing: {
    type: 'object',
    required: [
      ...['stands', 'reason', 'detail', 'retryable', 'passport_id', 'agent_id', 'account_id', 'federated'],
    ],
    properties: {
      stands: { type: 'boolean', description: 'Whether a decision would get past its passport.' },
      reason: text('The reason that a BLOCK would have; null: it stands.'),
      detail: text('A sentence for people; null: it stands.'),
      retryable: { type: 'boolean', description: 'Whether it may stand later, unchanged.' },
      passport_id: text('Of the passport; null: it is not verified.'),
      agent_id: text('Of its agent.'),
      account_id: text('Of its account.'),
      federated: {
        type: 'boolean',
        description: 'It is a token of an issuer of others: its subject is its passport, not its agent_id.',
      },
    },
    examples: [
      {
        ...{
          stands: false,
          reason: 'passport_revoked',
          detail: 'The passport was revoked.',
          retryable: false,
        },
        ...{ passport_id: 'pp_01m7w8f9q7eq3hpcdj9d0hxmcx', agent_id: 'buyer-7', federated: false },
        account_id: 'acct_01m7w8f9q7eq3hpcdj9d0hxmcx',
      },
    ],
  },
};
