import { describe, expect, it } from 'vitest';
import type { Document, Schema } from '../../../control-plane/openapi/document.ts';
import { type Answered, answerHolder } from '../../support/data/document.ts';

const json = (schema: Schema) => ({ 'application/json': { schema } });
const gate = { type: 'object', required: ['name'], properties: { name: { type: 'string' } } };
const error = {
  type: 'object',
  required: ['error'],
  properties: { error: { type: 'object', required: ['code'], properties: { code: { type: 'string' } } } },
};
const document: Document = {
  ...{ openapi: '3.1.0', info: {}, servers: [], tags: [] },
  paths: {
    '/gates/{id}': {
      get: {
        ...{ operationId: 'getGate', summary: 'Get a gate', tags: ['Gates'], security: [] },
        responses: {
          200: {
            ...{ description: '', headers: {} },
            content: json({
              type: 'object',
              properties: { gates: { type: 'array', items: { $ref: '#/components/schemas/Gate' } } },
            }),
          },
          304: { description: '', headers: {} },
          404: { $ref: '#/components/responses/NotFound' },
        },
      },
    },
  },
  components: {
    ...{ securitySchemes: {}, headers: {}, schemas: { Gate: gate, Error: error } },
    responses: {
      NotFound: {
        ...{ description: '', headers: {} },
        content: json({ $ref: '#/components/schemas/Error' }),
        'x-error-codes': ['gate_not_found'],
      },
    },
  },
};

const good: Answered = {
  method: 'GET',
  path: '/gates/gate_1',
  status: 200,
  headers: { 'x-request-id': 'req_1', 'content-type': 'application/json; charset=utf-8' },
  body: { json: { gates: [{ name: 'a' }] } },
};
const notFound = (code: string): Answered => ({ ...good, status: 404, body: { json: { error: { code } } } });
const hold = answerHolder(document);

/** What makes the holder of every answer in the API tests fail, and what does not. */
describe('an answer', () => {
  it.each([
    ['of an operation that is not there', { ...good, path: '/nowhere' }, 'is not in the document'],
    ['with a status that is not there', { ...good, status: 201 }, 'answered 201'],
    ['with a field too many', { ...good, body: { json: { gates: [{ name: 'a', more: 1 }] } } }, '/gates/0'],
    ["with another operation's code", notFound('passport_not_found'), 'passport_not_found'],
    [
      'of another content type',
      { ...good, headers: { ...good.headers, 'content-type': 'text/html' } },
      'text/html',
    ],
    ['without a request id', { ...good, headers: {} }, 'X-Request-Id'],
  ])('%s fails', (_what, answered, said) => {
    expect(() => hold(answered)).toThrow(said);
  });
});
