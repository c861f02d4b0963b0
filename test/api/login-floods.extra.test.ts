import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { until } from '../support/base/until.ts';
import { authenticator } from '../support/data/authenticator.ts';
import { type Api, cookiesOf, startOwnApi } from '../support/service/api.ts';
import { browsersOf, codeOf, expectOpenDoor } from '../support/service/login-floods.ts';

const origin = 'http://localhost:8080';
let api: Api;
beforeAll(async () => {
  // A hash takes some milliseconds, so that a flood waits for it as it does in earnest.
  api = await startOwnApi({ origin, passwordCost: { logN: 12, r: 8, p: 1 } });
});
afterEach(() => api.deps.sql`DELETE FROM login_attempts`);
afterAll(() => api?.close());

it.each(['twenty', 'of IPv6'] as const)(
  'a flood from networks (%s) keeps out no new browser, invitation or browser that was here',
  (of) => expectOpenDoor(api, of),
);

it('a flood does not stand before passkeys', async () => {
  const { post, flood } = browsersOf(api);
  const newcomer = '203.0.113.7';
  const person = await api.createUser({ role: 'auditor' });
  const made = authenticator(origin);
  const own = (path: string, body: object, cookie = '') =>
    post(`/users/me/passkeys${path}`, body, { cookie: `${person.headers['cookie']}; ${cookie}` });
  const begun = await own('/begin', { password: person.password });
  await own('', { name: 'Laptop', response: made.create(begun.body.options) }, cookiesOf(begun));
  const attack = flood(1, 30, () => '10.98.9.9');
  try {
    await until(() => attack.codes.includes('overloaded'), { what: 'a full lane' });
    const login = await post('/session/passkey/begin', {}, { from: newcomer });
    const sent = { response: made.get(login.body.options) };
    expect(codeOf(await post('/session/passkey', sent, { cookie: cookiesOf(login), from: newcomer }))).toBe(
      'ok',
    );
  } finally {
    await attack.end();
  }
});
