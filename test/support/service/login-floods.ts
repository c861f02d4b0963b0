import { expect } from 'vitest';
import { until } from '../base/until.ts';
import { type Api, fromConsole, type LoggedIn, type Reply } from './api.ts';

export const codeOf = ({ status, body }: Reply): string => (status === 200 ? 'ok' : body.error.code);

/** How browsers, from whatever address, log in at this control plane. */
export function browsersOf(api: Api) {
  async function post(
    url: string,
    body: object,
    { cookie = '', from = '127.0.0.1' }: { readonly cookie?: string; readonly from?: string } = {},
  ): Promise<Reply> {
    const answer = await api.app.inject({
      method: 'POST',
      url: `/v1${url}`,
      headers: { ...fromConsole, cookie, 'content-type': 'application/json' },
      payload: JSON.stringify(body),
      remoteAddress: from,
    });
    return { status: answer.statusCode, body: answer.json(), headers: answer.headers };
  }
  const logIn = ({ email, password }: Pick<LoggedIn, 'email' | 'password'>, from: string, cookie = '') =>
    post('/session', { email, password }, { from, cookie });

  /**
   * Strangers from so many networks, each of which tries again whatever the answer was, until it is ended.
   */
  function flood(networks: number, clients: number, addressOf: (network: number, tries: number) => string) {
    let isOn = true;
    const codes: string[] = [];
    const served = new Set<number>();
    const client = async (place: number) => {
      for (let tries = 0; isOn; tries++) {
        const network = (place + tries * clients) % networks;
        const email = `nobody-${place}-${tries}@example.com`;
        const code = codeOf(await logIn({ email, password: 'a wrong password' }, addressOf(network, tries)));
        codes.push(code);
        if (code === 'login_failed') served.add(network);
      }
    };
    const clientsDone = Promise.all(Array.from({ length: clients }, (_each, place) => client(place)));
    return {
      codes,
      /** Each of its networks has had a turn: it is no newcomer any more. */
      isKnown: () => until(() => served.size === networks, { what: 'a turn of each network' }),
      end: async () => {
        isOn = false;
        await clientsDone;
      },
    };
  }

  return { post, logIn, flood };
}

/** Addresses of floods: those of one network, of twenty, and of twenty of IPv6. */
const networksOfFloods = {
  one: [1, (_network: number, tries: number) => `10.99.0.${tries % 200}`],
  twenty: [20, (network: number, tries: number) => `10.${network}.0.${tries % 5}`],
  'of IPv6': [20, (network: number) => `2001:db8:${network.toString(16)}::1`],
} as const;

/** Beside this flood a new browser, an invitation and a browser that was here come in. */
export async function expectOpenDoor(api: Api, of: keyof typeof networksOfFloods): Promise<void> {
  const { post, logIn, flood } = browsersOf(api);
  const [networks, addressOf] = networksOfFloods[of];
  const user = await api.createUser({ role: 'auditor' });
  const email = `invited-${of.replace(' ', '-')}@example.com`;
  const invited = await api.call({ url: '/v1/users', body: { email, role: 'auditor' } });
  const attack = flood(networks, 30, addressOf);
  try {
    await attack.isKnown();
    await until(() => attack.codes.includes('overloaded'), { what: 'a full lane' });
    const token = new URL(invited.body.invitation_url).hash.slice('#token='.length);
    const acceptance = { token, name: 'New', password: 'a password of a new one' };
    expect(codeOf(await post('/invitations/accept', acceptance, { from: addressOf(0, 0) }))).toBe('ok');
    expect(codeOf(await logIn(user, addressOf(0, 0), user.headers['cookie']))).toBe('ok');
    expect(codeOf(await logIn(user, '203.0.113.7'))).toBe('ok');
  } finally {
    await attack.end();
  }
}
