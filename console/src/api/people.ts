import type { Role } from '../../../shared/model/user.ts';
import { ask } from './client.ts';
import { readAll } from './read-all.ts';

/** The operations of people and sessions, which the generated client leaves out: they need a browser. */

export { type Role, roles } from '../../../shared/model/user.ts';

export interface User {
  readonly user_id: string;
  readonly email: string;
  readonly name: string;
  readonly role: Role;
  readonly status: 'invited' | 'active' | 'disabled';
  readonly totp_enabled: boolean;
  readonly invited_by: string | null;
  /** False: answers no approval until somebody confirms them. */
  readonly confirmed: boolean;
  readonly created_at: string;
  readonly last_login_at: string | null;
}

/** Whom a key invited, and nobody has confirmed: answers no approvals. */
export const isUnconfirmed = ({ status, confirmed }: User): boolean => status === 'active' && !confirmed;

export interface Session {
  readonly session_id: string;
  readonly user: User;
  readonly account: {
    readonly account_id: string;
    readonly name: string;
    readonly plan: string;
    readonly is_operator: boolean;
  };
  readonly scopes: readonly string[];
  readonly mode: 'live' | 'test';
  readonly created_at: string;
  readonly expires_at: string;
  readonly idle_expires_at: string;
}

export interface SessionListItem {
  readonly session_id: string;
  readonly user_id: string;
  readonly user_agent: string | null;
  readonly is_current: boolean;
  readonly created_at: string;
  readonly last_seen_at: string;
  readonly expires_at: string;
}

export interface Page<T> {
  readonly items: readonly T[];
  readonly total: number;
  readonly next_cursor: string | null;
}

export interface Login {
  readonly email: string;
  readonly password: string;
  readonly totp_code?: string;
  readonly account_id?: string;
}

/** How people may log in besides a password. */
export interface LoginMethods {
  /** Whether browsers keep passkeys for this address. */
  readonly passkeys: boolean;
  /** The identity provider; null: none is set. */
  readonly oidc: { readonly name: string; readonly available: boolean } | null;
}

export interface Acceptance {
  readonly token: string;
  readonly name: string;
  readonly password: string;
  /** Only for the first owner, whose link carries no address. */
  readonly email?: string;
}

export interface Invitation {
  readonly user: User;
  /** Shown once; absent: it was mailed alone. */
  readonly invitation_url?: string;
  readonly expires_at: string;
  /** Absent: it was not mailed. */
  readonly mail?: { readonly sent: boolean; readonly error: { readonly detail: string } | null };
}

/** What the holder of a link is asked to become. */
export interface Invited {
  readonly account_name: string;
  readonly role: Role;
  readonly email: string | null;
  readonly invited_by_name: string | null;
}

const get = <T>(path: string, query?: Readonly<Record<string, string | number | undefined>>) =>
  ask<T>({ method: 'GET', path, query });
const post = <T>(path: string, body: object = {}) => ask<T>({ method: 'POST', path, body });
const user = (id: string) => `/v1/users/${encodeURIComponent(id)}`;

export const people = {
  session: () => get<Session>('/v1/session'),
  logIn: (body: Login) => post<Session>('/v1/session', body),
  loginMethods: () => get<LoginMethods>('/v1/login-methods'),
  beginOidc: (body: { readonly return_to: string; readonly account_id?: string }) =>
    post<{ readonly authorization_url: string }>('/v1/session/oidc/begin', body),
  finishOidc: (body: { readonly code: string; readonly state: string; readonly iss?: string }) =>
    post<{ readonly return_to: string }>('/v1/session/oidc', body),
  logOut: () => ask<void>({ method: 'DELETE', path: '/v1/session' }),
  sessions: () => readAll<SessionListItem>('/v1/sessions'),
  endSession: (id: string) => ask<void>({ method: 'DELETE', path: `/v1/sessions/${encodeURIComponent(id)}` }),
  accept: (body: Acceptance) => post<Session>('/v1/invitations/accept', body),
  list: (query: { readonly limit?: number; readonly cursor?: string; readonly name?: string }) =>
    get<Page<User>>('/v1/users', query),
  invite: (body: { readonly email: string; readonly role: Role; readonly delivery?: 'mail' }) =>
    post<Invitation>('/v1/users', body),
  inviteAgain: (id: string) => post<Invitation>(`${user(id)}/invitation`),
  confirm: (id: string) => post<User>(`${user(id)}/confirm`),
  readInvitation: (token: string) => post<Invited>('/v1/invitations/read', { token }),
  update: (id: string, body: { readonly role?: Role; readonly status?: 'active' | 'disabled' }) =>
    ask<User>({ method: 'PATCH', path: user(id), body }),
  remove: (id: string) => ask<unknown>({ method: 'DELETE', path: user(id) }),
  changePassword: (body: { readonly current_password: string; readonly new_password: string }) =>
    post<unknown>('/v1/users/me/password', body),
  startTotp: () => post<{ readonly secret: string; readonly uri: string }>('/v1/users/me/totp'),
  confirmTotp: (code: string) =>
    post<{ readonly recovery_codes: readonly string[] }>('/v1/users/me/totp/confirm', { code }),
  removeTotp: (password: string) =>
    ask<void>({ method: 'DELETE', path: '/v1/users/me/totp', body: { password } }),
};
