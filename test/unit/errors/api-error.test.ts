import { describe, expect, it } from 'vitest';
import { ApiError, invalidRequest, renderError } from '../../../shared/errors/api-error.ts';
import { catalogue, type ErrorCode } from '../../../shared/errors/catalogue.ts';

describe('the error catalogue', () => {
  it('has only statuses of the contract, and 412, 415 and 503', () => {
    const statuses = new Set(Object.values(catalogue).map(({ status }) => status));
    expect([...statuses].sort()).toEqual([400, 401, 403, 404, 409, 412, 415, 429, 500, 503]);
  });

  it('renders the specified body for each code', () => {
    for (const code of Object.keys(catalogue) as ErrorCode[]) {
      expect(renderError(new ApiError(code), 'req_1')).toEqual({
        error: {
          code,
          message: catalogue[code].message,
          status: catalogue[code].status,
          request_id: 'req_1',
        },
      });
    }
  });

  it('names the field at fault', () => {
    expect(renderError(invalidRequest('name', 'name is missing.'), 'req_1').error).toMatchObject({
      code: 'invalid_request',
      message: 'name is missing.',
      param: 'name',
    });
  });
});
