import { describe, expect, it } from 'vitest';
import { withoutSecrets, withToken } from '../../../../control-plane/http/answer-secrets.ts';

const seal = (text: string) => `sealed ${text}`;
const open = (sealed: string) => sealed.slice('sealed '.length);

describe('withoutSecrets', () => {
  it('drops one-time secrets and seals the token', () => {
    const answer = { id: 'pass_1', private_key: 'p', key: 'k', secret: 's', jwt: 'a.b.c', public_key: 'q' };
    expect(withoutSecrets(answer, seal)).toEqual({ id: 'pass_1', jwt: 'sealed a.b.c', public_key: 'q' });
    expect(answer).toHaveProperty('private_key');
  });

  it('drops the key of the first API key of an account', () => {
    const answer = { account_id: 'acct_1', api_key: { key_id: 'key_1', key: 'k' } };
    expect(withoutSecrets(answer, seal)).toEqual({ account_id: 'acct_1', api_key: { key_id: 'key_1' } });
  });

  it('leaves the same names alone where they are data', () => {
    const answer = { permissions: [{ key: 'orders:create' }], metadata: { key: 1, secret: 2, jwt: '3' } };
    expect(withoutSecrets(answer, seal)).toEqual(answer);
  });
});

describe('withToken', () => {
  it('gives back the token, in its place', () => {
    const stored = withoutSecrets({ id: 'pass_1', jwt: 'a.b.c', status: 'active' }, seal);
    expect(JSON.stringify(withToken(stored, open))).toBe('{"id":"pass_1","jwt":"a.b.c","status":"active"}');
  });

  it('leaves an answer without one unchanged', () => {
    expect(withToken({ name: 'a' }, open)).toEqual({ name: 'a' });
  });
});
