import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useEffect, useState } from 'react';
import { AgentTrustError } from '../api/client.ts';
import { passkeys } from '../api/passkeys.ts';
import { people } from '../api/people.ts';
import { useSetSession } from '../api/session.tsx';
import { useAction } from '../ui/action.ts';
import { TextField } from '../ui/field.tsx';
import { Form } from '../ui/form.tsx';
import { Problem } from '../ui/page.tsx';
import { PasskeyProblem } from '../ui/passkey-problem.tsx';
import { AccountField, isAboutAccount, rememberReturn } from './account-field.tsx';

const codeOf = (error: unknown): string => (error instanceof AgentTrustError ? error.code : '');

/** Shown in the place of any page, at its own address, so that the page comes after the login. */
export function LogIn(): ReactNode {
  const setSession = useSetSession();
  const [email, setEmail] = useState('');
  const [password, setPassword] = useState('');
  const [code, setCode] = useState('');
  const [account, setAccount] = useState('');
  const login = useAction({
    run: people.logIn,
    onDone: setSession,
  });
  useEffect(() => {
    document.title = 'Log in · agent-trust';
  }, []);
  const error = codeOf(login.error);
  const needsCode = error === 'totp_required' || code !== '';
  const needsAccount = account !== '' || isAboutAccount(login.error);
  const submit = () =>
    login.mutate({
      email: email.trim(),
      password,
      ...(code === '' ? {} : { totp_code: code.trim() }),
      ...(account.trim() === '' ? {} : { account_id: account.trim() }),
    });
  return (
    <main className="welcome" style={{ maxWidth: 'none' }}>
      <Form className="card" error={login.error} onSubmit={submit}>
        <div className="stack tight">
          <img src="/console/icon.svg" alt="" width="36" height="36" />
          <h1>Log in to agent-trust</h1>
        </div>
        <TextField
          label="Email"
          param="email"
          type="email"
          name="email"
          autoComplete="username"
          required
          value={email}
          onChange={setEmail}
        />
        <TextField
          label="Password"
          param="password"
          type="password"
          name="password"
          autoComplete="current-password"
          required
          value={password}
          onChange={setPassword}
        />
        {needsCode ? (
          <TextField
            label="Code of your authenticator app"
            param="totp_code"
            hint="Or one of your recovery codes."
            name="totp_code"
            autoComplete="one-time-code"
            required
            autoFocus
            value={code}
            onChange={setCode}
          />
        ) : null}
        {needsAccount ? <AccountField value={account} onChange={setAccount} /> : null}
        {error === 'login_failed' ? (
          <p className="notice bad" role="alert">
            The email, the password or the code is wrong.
          </p>
        ) : login.error !== null && error !== 'totp_required' ? (
          <Problem error={login.error} />
        ) : null}
        <button type="submit" className="button primary large" disabled={login.isPending}>
          {login.isPending ? 'Logging in…' : 'Log in'}
        </button>
        <OtherLogins />
        <p className="soft small">
          No account yet? An owner or admin invites you. The first owner finds a link in{' '}
          <code>first-owner-link</code>, in the data folder of the service.
        </p>
      </Form>
    </main>
  );
}

/** The page comes first: these appear when the service has said that there are any. */
function OtherLogins(): ReactNode {
  const methods = useQuery({ queryKey: ['login-methods'], queryFn: people.loginMethods });
  const setSession = useSetSession();
  const passkey = useAction({ run: passkeys.logIn, onDone: setSession });
  const begin = useAction({
    run: people.beginOidc,
    onDone: ({ authorization_url: url }) => location.assign(url),
  });
  const oidc = methods.data?.oidc ?? null;
  // The page that was asked for is shown after the login.
  const here = `${location.pathname}${location.search}${location.hash}`;
  return (
    <>
      {methods.data?.passkeys === true ? (
        <button
          type="button"
          className="button large"
          disabled={passkey.isPending}
          onClick={() => passkey.mutate(undefined)}
        >
          Use a passkey
        </button>
      ) : null}
      {passkey.error === null ? null : <PasskeyProblem error={passkey.error} />}
      {oidc === null ? null : (
        <button
          type="button"
          className="button large"
          disabled={!oidc.available || begin.isPending}
          onClick={() => {
            rememberReturn(here);
            begin.mutate({ return_to: here });
          }}
        >
          Continue with {oidc.name}
        </button>
      )}
      {oidc === null || oidc.available ? null : (
        <p className="notice warn">{oidc.name} cannot be reached now. Log in with your password.</p>
      )}
      {begin.error === null ? null : <Problem error={begin.error} />}
    </>
  );
}
