import type { Operation, Schema } from '../../../control-plane/openapi/document.ts';
import { limits } from '../../../shared/model/limits.ts';

const ref = (name: string): Schema => ({ $ref: `#/components/schemas/${name}` });
const text = (description: string): Schema => ({ type: 'string', description });
const freeForm = (description: string): Schema => ({
  type: 'object',
  additionalProperties: true,
  description,
});
const object = (description: string, required: readonly string[], properties: Schema): Schema => ({
  type: 'object',
  description,
  required: [...required],
  properties,
  additionalProperties: true,
});

const request = 'Becomes part of the `request` of `check`, as `properties` elsewhere.';
const subject = object('Who asks.', ['type', 'id', 'properties'], {
  type: { type: 'string', const: 'agent', description: 'Only agents ask here.' },
  id: text('The agent_id or the passport_id of the passport.'),
  properties: object('What is known of the agent.', ['passport'], {
    passport: text('The passport token. A credential: do not log it.'),
  }),
});
const action = object('What the agent wants to do.', ['name'], {
  name: text('The permission, `orders:create`.'),
  properties: freeForm(request),
});
const resource = object('Where.', ['type', 'id'], {
  type: { type: 'string', const: 'gate', description: 'Only gates are decided on.' },
  id: text('Id of the gate, `gate_…`.'),
  properties: freeForm(request),
});
const context = freeForm('Becomes part of the `request` of `check`: amount, domain, idempotency key.');

export const authzenSchemas: Readonly<Record<string, Schema>> = {
  EvaluationRequest: object('', ['subject', 'action', 'resource'], { subject, action, resource, context }),
  EvaluationsRequest: object('', [], {
    subject,
    action,
    resource,
    context,
    evaluations: {
      type: 'array',
      maxItems: limits.batchChecksMax,
      items: freeForm('One evaluation; what it lacks is taken from the members beside `evaluations`.'),
      description: 'The evaluations; none: the body is a single evaluation, and so is the answer.',
    },
    options: object('How they are evaluated.', [], {
      evaluations_semantic: {
        type: 'string',
        enum: ['execute_all', 'deny_on_first_deny', 'permit_on_first_permit'],
        description: 'Which of them are evaluated; default: all.',
      },
    }),
  }),
  Evaluation: {
    type: 'object',
    required: ['decision', 'context'],
    properties: {
      decision: { type: 'boolean', description: 'True for a PERMIT and for nothing else.' },
      context: {
        anyOf: [ref('Decision'), ref('Error')],
        description:
          'The answer of `check`; of a SUSPEND with `evaluation_id` and `access_request`, of a redaction with `obligations`.',
      },
    },
  },
  Evaluations: {
    anyOf: [
      {
        type: 'object',
        required: ['evaluations'],
        properties: {
          evaluations: {
            type: 'array',
            items: ref('Evaluation'),
            description: 'In the order of the request, up to the one that ended it.',
          },
        },
      },
      ref('Evaluation'),
    ],
  },
  AuthzenConfiguration: {
    type: 'object',
    required: [
      'policy_decision_point',
      'access_evaluation_endpoint',
      'access_evaluations_endpoint',
      'access_request_endpoint',
      'capabilities',
      'supported_obligations',
    ],
    properties: {
      policy_decision_point: text('The origin of this sidecar.'),
      access_evaluation_endpoint: text('Where one evaluation is asked for.'),
      access_evaluations_endpoint: text('Where several are asked for at once.'),
      access_request_endpoint: text('Of the control plane: where the access request of a SUSPEND is shown.'),
      capabilities: {
        type: 'array',
        items: { type: 'string' },
        description: 'Which profiles of AuthZEN are served, by their names.',
      },
      supported_obligations: {
        type: 'array',
        items: { type: 'string' },
        description: 'Types of the obligations that answers may have.',
      },
    },
  },
};

const anEvaluation = {
  subject: {
    type: 'agent',
    id: 'shopping-agent-1',
    properties: { passport: 'eyJhbGciOiJFZERTQSIsInR5cCI6InBhc3Nwb3J0K2p3dCJ9.….…' },
  },
  action: { name: 'orders:create', properties: { amount: 12.5 } },
  resource: { type: 'gate', id: 'gate_01m7w8f9hmk9xzhvcz13er4z9h' },
  context: { domain: 'shop.example.com' },
};

const bodies: Readonly<Record<string, unknown>> = {
  EvaluationRequest: anEvaluation,
  EvaluationsRequest: {
    subject: anEvaluation.subject,
    resource: anEvaluation.resource,
    evaluations: [{ action: { name: 'orders:create' } }, { action: { name: 'orders:read' } }],
    options: { evaluations_semantic: 'execute_all' },
  },
};

const taken = (name: string): NonNullable<Operation['requestBody']> => ({
  required: true,
  content: {
    'application/json': { schema: ref(name), examples: { evaluation: { value: bodies[name] } } },
  },
});

/**
 * What a sidecar answers of OpenID AuthZEN Authorization API 1.0, which the control plane does not serve.
 * `check`: the operation that decides the same, whose refusals are these.
 */
export function authzenOperations(check: Operation): Readonly<Record<string, Record<string, Operation>>> {
  const { parameters: _, ...same } = check;
  const answering = (name: string): Operation['responses'] => ({
    ...check.responses,
    200: {
      description: 'Success.',
      headers: { 'X-Request-Id': { $ref: '#/components/headers/X-Request-Id' } },
      content: { 'application/json': { schema: ref(name) } },
    },
  });
  const needed = '\n\nNeeds a key with the scope `enforcement:check`.';
  return {
    '/.well-known/authzen-configuration': {
      get: {
        operationId: 'getAuthzenConfiguration',
        summary: 'Get the AuthZEN metadata',
        tags: ['Operations'],
        description: 'Public: needs no key.',
        security: [],
        responses: { 200: answering('AuthzenConfiguration')[200] as Operation['responses'][number] },
      },
    },
    '/access/v1/evaluation': {
      post: {
        ...same,
        operationId: 'evaluateAccess',
        summary: 'Decide in the words of AuthZEN 1.0',
        description: `The same decision as \`check\`, charged and recorded alike.${needed}`,
        requestBody: taken('EvaluationRequest'),
        responses: answering('Evaluation'),
      },
    },
    '/access/v1/evaluations': {
      post: {
        ...same,
        operationId: 'evaluateAccesses',
        summary: 'Decide several in the words of AuthZEN 1.0',
        description: `In order; an evaluation that cannot be decided is \`decision: false\` with its error.${needed}`,
        requestBody: taken('EvaluationsRequest'),
        responses: answering('Evaluations'),
      },
    },
  };
}
