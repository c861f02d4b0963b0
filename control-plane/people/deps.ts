import type { ChannelDeps } from '../channels/deps.ts';
import type { SessionDeps } from '../sessions/deps.ts';
import type { LoginAttempts } from './login-attempts.ts';
import type { Passwords } from './passwords.ts';

export interface PeopleDeps extends SessionDeps, Pick<ChannelDeps, 'mailer'> {
  readonly passwords: Passwords;
  readonly loginAttempts: LoginAttempts;
}
