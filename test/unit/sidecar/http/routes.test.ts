import { describe, expect, it } from 'vitest';
import { ApiError } from '../../../../shared/errors/api-error.ts';
import { limits } from '../../../../shared/model/limits.ts';
import { routeOf } from '../../../../sidecar/http/routes.ts';

const gateId = 'gate_01h2xcejqtf2nbrexx3vqjhp41';

function refusal(method: string, path: string): string {
  try {
    return JSON.stringify(routeOf({ method, path }));
  } catch (error) {
    if (error instanceof ApiError) return error.code;
    throw error;
  }
}

describe('the addresses of the sidecar', () => {
  it.each([
    ['POST', `/v1/gates/${gateId}/check`, { kind: 'check', gateId }],
    ['POST', '/v1/gates/gate%5F01h2xcejqtf2nbrexx3vqjhp41/check', { kind: 'check', gateId }],
    ['POST', '/v1/gates/nothing-like-an-id/check', { kind: 'check', gateId: 'nothing-like-an-id' }],
    ['POST', '/v1/gates//check', { kind: 'check', gateId: '' }],
    ['POST', '/v1/enforce', { kind: 'enforce' }],
    ['GET', '/livez', { kind: 'livez' }],
    ['HEAD', '/readyz', { kind: 'readyz' }],
    ['GET', '/metrics', { kind: 'metrics' }],
    ['GET', '/openapi.json', { kind: 'openapi' }],
  ])('%s %s', (method, path, route) => {
    expect(routeOf({ method, path })).toEqual(route);
  });

  it.each([
    ['GET', `/v1/gates/${gateId}/check`],
    ['PUT', '/v1/enforce'],
    ['GET', '/v1/openapi.json'],
    ['POST', '/v1/gates/a/b/check'],
    ['POST', `/v1/gates/${gateId}/check/`],
    ['GET', '/'],
  ])('%s %s is no address', (method, path) => {
    expect(refusal(method, path)).toBe('route_not_found');
  });

  it.each([
    ['POST', '/v1/gates/%E0%A4%A/check'],
    ['POST', '/v1/gates/gate%00/check'],
    ['POST', `/v1/gates/${'x'.repeat(limits.pathParamCharsMax + 1)}/check`],
  ])('%s %s cannot be read', (method, path) => {
    expect(refusal(method, path)).toBe('invalid_request');
  });
});
