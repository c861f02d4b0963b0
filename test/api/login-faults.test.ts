import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { oidcLimits } from '../../control-plane/oidc/limits.ts';
import { hourMs, minuteMs } from '../../shared/model/time.ts';
import { until } from '../support/base/until.ts';
import { authenticator } from '../support/data/authenticator.ts';
import { logInAtProvider, startTestProvider } from '../support/peers/test-provider.ts';
import {
  type Api,
  cookiesOf,
  fromConsole,
  type LoggedIn,
  type Reply,
  startOwnApi,
} from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { secondControlPlane } from '../support/service/second-control-plane.ts';
import { useApi, useStarted } from '../support/service/use-api.ts';

const origin = 'http://localhost:8080';
const provider = useStarted(() => startTestProvider({ origin }));
const api = useApi(() => startOwnApi({ origin, provider: provider.settings }));
beforeAll(() => api.stopClock());
/** Another one, as it is after a restart: nothing of it is in the memory of the first. */
const restarted = useStarted(() => secondControlPlane(api));
afterEach(() => {
  provider.state = 'well';
  vi.useRealTimers();
});

interface Sent {
  readonly cookie?: string;
  /** The network that it comes from. */
  readonly from?: string;
  readonly at?: Pick<Api, 'app'>;
}

async function post(url: string, body: object, { cookie = '', from, at = api }: Sent = {}): Promise<Reply> {
  const answer = await at.app.inject({
    method: 'POST',
    url: `/v1/session${url}`,
    headers: { ...fromConsole, cookie, 'content-type': 'application/json' },
    payload: JSON.stringify(body),
    ...(from === undefined ? {} : { remoteAddress: from }),
  });
  return { status: answer.statusCode, body: answer.json(), headers: answer.headers };
}
const times = <T>(count: number, work: (index: number) => T): T[] =>
  Array.from({ length: count }, (_each, index) => work(index));
const network = (index: number): string => `10.9.${index >> 8}.${index & 255}`;
const countsOf = (replies: readonly Reply[]): Readonly<Record<string, number>> => {
  const counts: Record<string, number> = {};
  for (const { status, body } of replies) {
    const code = status === 200 ? 'ok' : body.error.code;
    counts[code] = (counts[code] ?? 0) + 1;
  }
  return counts;
};
const withPassword = ({ email, password }: LoggedIn): Promise<Reply> => post('', { email, password });

let people = 0;
/** An OIDC login up to the return from the provider. */
async function returned(user: LoggedIn) {
  people += 1;
  const begun = await post('/oidc/begin', {});
  const person = { sub: `fault-${people}`, email: user.email, email_verified: true };
  return { cookie: cookiesOf(begun), back: await logInAtProvider(begun.body.authorization_url, person) };
}
/** A passkey login up to the answer of the authenticator. */
async function signed() {
  const person = await api.createUser({ role: 'auditor' });
  const made = authenticator(origin);
  const own = (path: string, body: object, cookie = '') =>
    api.call({
      url: `/v1/users/me/passkeys${path}`,
      key: null,
      headers: { ...person.headers, cookie: `${person.headers['cookie']}; ${cookie}` },
      body,
    });
  const begun = await own('/begin', { password: person.password });
  const response = made.create(begun.body.options);
  expect((await own('', { name: 'Laptop', response }, cookiesOf(begun))).status).toBe(201);
  const login = await post('/passkey/begin', {});
  return { cookie: cookiesOf(login), body: { response: made.get(login.body.options) } };
}

describe('ten times the load of logins', () => {
  it('does not block password logins while a silent provider is called, nor afterwards', async () => {
    const user = await api.createUser({ role: 'auditor' });
    const returns = await Promise.all(times(3, () => returned(user)));
    const [mine] = returns;
    const begun = await Promise.all(times(180, () => post('/oidc/begin', {})));
    // Nothing of it is kept here.
    expect((await api.deps.sql`SELECT FROM used_login_challenges`).count).toBe(0);
    provider.state = 'silent';
    const asked = provider.asked.length;
    // From four networks: together more than are checked and may wait.
    const flood = begun.map((each, index) => {
      const state = new URL(each.body.authorization_url).searchParams.get('state');
      const sent = { cookie: cookiesOf(each), from: network(index % 4) };
      return post('/oidc', { code: 'guessed', state, iss: provider.settings.issuer }, sent);
    });
    const { checksAtOnceMax } = oidcLimits;
    const askedMore = () => provider.asked.length - asked;
    await until(() => askedMore() === checksAtOnceMax, { what: 'as many calls as are made at once' });
    expect((await withPassword(user)).status).toBe(200);
    expect(askedMore()).toBe(checksAtOnceMax);
    provider.state = 'away';
    expect(countsOf(await Promise.all(flood))).toEqual({ service_unavailable: 112, overloaded: 68 });
    provider.state = 'well';
    expect((await post('/oidc', mine?.back ?? {}, { cookie: mine?.cookie ?? '' })).status).toBe(200);
  });

  it('counts passkeys that prove nothing by their network, and lets others in', async () => {
    const { cookie, body } = await signed();
    const response = { id: 'x', rawId: 'x', type: 'public-key', response: {} };
    const flood = await Promise.all(
      times(200, () => post('/passkey', { response }, { cookie, from: '10.8.0.1' })),
    );
    const counts = countsOf(flood);
    expect(counts['login_failed']).toBeLessThanOrEqual(100);
    expect(counts['ok']).toBeUndefined();
    expect((await post('/passkey', body, { cookie, from: '10.8.0.2' })).status).toBe(200);
  });
});

describe('a clock that jumps between the two halves of a login', () => {
  it.each([
    ['to its end', 10 * minuteMs],
    ['by hours', 5 * hourMs],
    ['back by an hour', -hourMs],
  ])('ends it where it jumps %s', async (_where, jumpMs) => {
    const oidc = await returned(await api.createUser({ role: 'auditor' }));
    const passkey = await signed();
    api.advance(jumpMs);
    try {
      expectError(await post('/oidc', oidc.back, oidc), 'login_failed');
      expectError(await post('/passkey', passkey.body, passkey), 'login_failed');
    } finally {
      api.advance(-jumpMs);
    }
    // It was not used: had the clock been right, it would have been good.
    expect((await post('/oidc', oidc.back, oidc)).status).toBe(200);
    expect((await post('/passkey', passkey.body, passkey)).status).toBe(200);
  });

  it('lets one go on that has a moment left', async () => {
    const oidc = await returned(await api.createUser({ role: 'auditor' }));
    const passkey = await signed();
    const jumpMs = 10 * minuteMs - 1;
    api.advance(jumpMs);
    try {
      expect((await post('/passkey', passkey.body, passkey)).status).toBe(200);
      expect((await post('/oidc', oidc.back, oidc)).status).toBe(200);
    } finally {
      api.advance(-jumpMs);
    }
  });
});

it('a provider that answers late is not waited for any longer than five seconds, and the same login can go on', async () => {
  const { back, cookie } = await returned(await api.createUser({ role: 'auditor' }));
  provider.state = 'silent';
  const asked = provider.asked.length;
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const late = post('/oidc', back, { cookie });
  await vi.waitFor(() => expect(provider.asked.length).toBe(asked + 1));
  vi.advanceTimersByTime(oidcLimits.callMsMax);
  vi.useRealTimers();
  expectError(await late, 'service_unavailable');
  provider.state = 'well';
  expect((await post('/oidc', back, { cookie })).status).toBe(200);
});

it('a control plane that was restarted between the two halves finishes what the one before began, once', async () => {
  const oidc = await returned(await api.createUser({ role: 'auditor' }));
  const passkey = await signed();
  expect((await post('/oidc', oidc.back, { ...oidc, at: restarted })).status).toBe(200);
  expect((await post('/passkey', passkey.body, { ...passkey, at: restarted })).status).toBe(200);
  expectError(await post('/passkey', passkey.body, passkey), 'login_failed');
  expectError(await post('/oidc', oidc.back, oidc), 'login_failed');
});
