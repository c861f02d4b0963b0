import type {
  AuthenticationResponseJSON,
  PublicKeyCredentialCreationOptionsJSON,
  PublicKeyCredentialRequestOptionsJSON,
  RegistrationResponseJSON,
} from '@simplewebauthn/browser';
import { ask } from './client.ts';
import type { Session } from './people.ts';

export interface Passkey {
  readonly passkey_id: string;
  readonly name: string;
  readonly created_at: string;
  readonly last_used_at: string | null;
}

/** Loaded on the first use of a passkey. */
const library = () => import('@simplewebauthn/browser');

const own = '/v1/users/me/passkeys';
const post = <T>(path: string, body: object = {}) => ask<T>({ method: 'POST', path, body });
const one = (id: string) => `${own}/${encodeURIComponent(id)}`;

/** The browser asks the person, who may refuse. */
export class PasskeyNotUsed extends Error {}

async function asked<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    throw new PasskeyNotUsed('No passkey was used: it was cancelled, took too long, or there is none here.', {
      cause,
    });
  }
}

/** One of these passkeys signs the challenge. */
export async function signWith(
  options: PublicKeyCredentialRequestOptionsJSON,
): Promise<AuthenticationResponseJSON> {
  const { startAuthentication } = await library();
  return asked<AuthenticationResponseJSON>(() => startAuthentication({ optionsJSON: options }));
}

export const passkeys = {
  list: () => ask<{ readonly items: readonly Passkey[] }>({ method: 'GET', path: own }),
  /** Makes one in this browser, after the password. */
  add: async ({ name, password }: { readonly name: string; readonly password: string }) => {
    const { options } = await post<{ options: PublicKeyCredentialCreationOptionsJSON }>(`${own}/begin`, {
      password,
    });
    const { startRegistration } = await library();
    const response = await asked<RegistrationResponseJSON>(() => startRegistration({ optionsJSON: options }));
    return post<Passkey>(own, { name, response });
  },
  rename: ({ id, name }: { readonly id: string; readonly name: string }) =>
    ask<Passkey>({ method: 'PATCH', path: one(id), body: { name } }),
  remove: (id: string) => ask<void>({ method: 'DELETE', path: one(id) }),
  logIn: async () => {
    const path = '/v1/session/passkey';
    const { options } = await post<{ options: PublicKeyCredentialRequestOptionsJSON }>(`${path}/begin`);
    return post<Session>(path, { response: await signWith(options) });
  },
};
