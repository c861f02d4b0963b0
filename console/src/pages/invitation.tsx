import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { type ReactNode, useEffect, useState } from 'react';
import { AgentTrustError } from '../api/client.ts';
import { people } from '../api/people.ts';
import { useSetSession } from '../api/session.tsx';
import { useAction } from '../ui/action.ts';
import { TextField } from '../ui/field.tsx';
import { Form } from '../ui/form.tsx';
import { words } from '../ui/format.ts';
import { Empty, Problem } from '../ui/page.tsx';

interface Invited {
  readonly token: string | null;
  /** As the first owner, who has no address here yet. */
  readonly isFirst: boolean;
}

/** Taken out of the address at once, so that it stays in no history and no screenshot. */
function takeInvited(): Invited {
  const token = new URLSearchParams(location.hash.slice(1)).get('token');
  const isFirst = new URLSearchParams(location.search).has('first');
  if (token !== null) history.replaceState(null, '', location.pathname);
  return { token, isFirst };
}

const passwordChars = { least: 12, most: 256 };

export default function InvitationPage(): ReactNode {
  const [{ token, isFirst }] = useState(takeInvited);
  const [name, setName] = useState('');
  const [email, setEmail] = useState('');
  const [password, setPassword] = useState('');
  const invited = useQuery({
    queryKey: ['invitation'],
    queryFn: () => people.readInvitation(token ?? ''),
    enabled: token !== null,
    retry: false,
  });
  const setSession = useSetSession();
  const navigate = useNavigate();
  const accept = useAction({
    run: people.accept,
    onDone: (session) => {
      setSession(session);
      void navigate({ to: '/' });
    },
  });
  // A link of an older version does not say so.
  const needsEmail =
    isFirst || email !== '' || (accept.error instanceof AgentTrustError && accept.error.param === 'email');
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
      <Form className="card" error={accept.error} onSubmit={() => submit(token)}>
        <h1>Join agent-trust</h1>
        {invited.isError && accept.error === null ? <Problem error={invited.error} /> : null}
        {invited.data === undefined ? null : (
          <p>
            {invited.data.invited_by_name ?? 'An API key'} invites {invited.data.email ?? 'you'} to the
            account <strong>{invited.data.account_name}</strong> on {location.host}, as{' '}
            {words(invited.data.role)}.
          </p>
        )}
        <TextField
          label="Your name"
          param="name"
          hint="Colleagues see it beside what you change."
          autoComplete="name"
          required
          maxLength={200}
          value={name}
          onChange={setName}
        />
        {needsEmail ? (
          <TextField
            label="Your email"
            param="email"
            hint="You are the first owner: with this address you will log in."
            type="email"
            autoComplete="username"
            required
            value={email}
            onChange={setEmail}
          />
        ) : null}
        <TextField
          label="Choose a password"
          param="password"
          hint={`At least ${passwordChars.least} characters. A sentence is easy to remember.`}
          type="password"
          autoComplete="new-password"
          required
          minLength={passwordChars.least}
          maxLength={passwordChars.most}
          value={password}
          onChange={setPassword}
        />
        {accept.error === null ? null : <Problem error={accept.error} />}
        <button type="submit" className="button primary large" disabled={accept.isPending}>
          {accept.isPending ? 'Joining…' : 'Join'}
        </button>
      </Form>
    </main>
  );
}
