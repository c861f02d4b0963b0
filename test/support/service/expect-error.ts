import { expect } from 'vitest';
import { catalogue, type ErrorCode } from '../../../shared/errors/catalogue.ts';
import type { Reply } from './api.ts';

/**
 * The specified error body and nothing else, with the status of its code, under the request id of its header.
 * Beside it a refused security event says the same in the words of RFC 8935.
 */
export function expectError(reply: Reply, code: ErrorCode, param?: string): void {
  const { err } = reply.body;
  expect(reply.body).toEqual({
    ...(err === undefined ? {} : { err: expect.any(String), description: reply.body.error.message }),
    error: {
      code,
      message: expect.stringMatching(/^[A-Z\w].*\.$/s),
      status: catalogue[code].status,
      request_id: expect.stringMatching(/^req_[0-9a-z]{26}$/),
      ...(param === undefined ? {} : { param }),
    },
  });
  expect(reply.status).toBe(catalogue[code].status);
  expect(reply.headers['x-request-id']).toBe(reply.body.error.request_id);
  expect(reply.headers['content-type']).toBe('application/json; charset=utf-8');
}
