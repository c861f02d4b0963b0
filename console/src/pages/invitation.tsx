import { useNavigate } from '@tanstack/react-router';
import { type ReactNode, useEffect, useState } from 'react';
import { AgentTrustError } from '../api/client.ts';
import { people } from '../api/people.ts';
import { useSetSession } from '../api/session.tsx';
import { onSubmit, useAction } from '../ui/action.ts';
import { TextField } from '../ui/field.tsx';
import { Empty, Problem } from '../ui/page.tsx';

/** Taken out of the address at once, so that it stays in no history and no screenshot. */
function takeToken(): string | null {
  const token = new URLSearchParams(location.hash.slice(1)).get('token');
  if (token !== null) history.replaceState(null, '', location.pathname);
  return token;
}

const passwordChars = { least: 12, most: 256 };

export default function InvitationPage(): ReactNode {
  const [token] = useState(takeToken);
  const [name, setName] = useState('');
  const [email, setEmail] = useState('');
  const [password, setPassword] = useState('');
  const setSession = useSetSession();
  const navigate = useNavigate();
  const accept = useAction({
    run: people.accept,
    onDone: (session) => {
      setSession(session);
      void navigate({ to: '/' });
    },
  });
  const isFirst = accept.error instanceof AgentTrustError && accept.error.param === 'email';
  const submit = (to: string) =>
    accept.mutate({
      token: to,
      name: name.trim(),
      password,
      ...(email.trim() === '' ? {} : { email: email.trim() }),
    });
  useEffect(() => {
    document.title = 'Invitation · agent-trust';
  }, []);
  if (token === null) {
    return (
      <main className="welcome" style={{ maxWidth: 'none' }}>
        <Empty title="This link is incomplete" action={<a href="/console/">Log in</a>}>
          Open the whole link of your invitation. It works once, for seven days; ask for a new one if it is
          older.
        </Empty>
      </main>
    );
  }
  return (
    <main className="welcome" style={{ maxWidth: 'none' }}>
      <form className="card" onSubmit={onSubmit(() => submit(token))}>
        <h1>Join agent-trust</h1>
        <TextField
          label="Your name"
          hint="Colleagues see it beside what you change."
          autoComplete="name"
          required
          maxLength={200}
          value={name}
          onChange={setName}
        />
        <TextField
          label="Choose a password"
          hint={`At least ${passwordChars.least} characters. A sentence is easy to remember.`}
          type="password"
          autoComplete="new-password"
          required
          minLength={passwordChars.least}
          maxLength={passwordChars.most}
          value={password}
          onChange={setPassword}
        />
        {isFirst || email !== '' ? (
          <TextField
            label="Your email"
            hint="You are the first owner: with this address you will log in."
            type="email"
            autoComplete="username"
            required
            value={email}
            onChange={setEmail}
          />
        ) : null}
        {accept.error === null || isFirst ? null : <Problem error={accept.error} />}
        <button type="submit" className="button primary large" disabled={accept.isPending}>
          {accept.isPending ? 'Joining…' : 'Join'}
        </button>
      </form>
    </main>
  );
}
