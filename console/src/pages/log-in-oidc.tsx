import { type ReactNode, useEffect, useRef, useState } from 'react';
import { AgentTrustError } from '../api/client.ts';
import { people } from '../api/people.ts';
import { useAction } from '../ui/action.ts';
import { Form } from '../ui/form.tsx';
import { Problem } from '../ui/page.tsx';
import { AccountField, isAboutAccount, rememberedReturn } from './account-field.tsx';

interface Returned {
  readonly code: string | null;
  readonly state: string | null;
  readonly iss: string | null;
}

/** Taken out of the address at once, so that it stays in no history. */
function takeReturned(): Returned {
  const search = new URLSearchParams(location.search);
  if (location.search !== '') history.replaceState(null, '', location.pathname);
  return { code: search.get('code'), state: search.get('state'), iss: search.get('iss') };
}

/** Where the identity provider sends the browser back to. */
export default function LogInOidcPage(): ReactNode {
  const [{ code, state, iss }] = useState(takeReturned);
  const [error, setError] = useState<unknown>(null);
  const isSent = useRef(false);
  useEffect(() => {
    document.title = 'Log in · agent-trust';
    // A code works once: not again when the page is mounted again.
    if (code === null || state === null || isSent.current) return;
    isSent.current = true;
    people.finishOidc({ code, state, ...(iss === null ? {} : { iss }) }).then(({ return_to: path }) => {
      // The service has sealed it; one of another origin would be ignored all the same.
      const url = new URL(path, location.origin);
      location.replace(url.origin === location.origin ? url : '/console/');
    }, setError);
  }, [code, state, iss]);
  const isBack = code !== null && state !== null;
  const problem = !isBack
    ? 'Your identity provider did not let you in, or you went back.'
    : error instanceof AgentTrustError
      ? error.message
      : error === null
        ? null
        : 'Something went wrong. Log in again.';
  return (
    <main className="welcome" style={{ maxWidth: 'none' }}>
      <div className="card stack">
        <h1>{problem === null ? 'Logging you in…' : 'You are not logged in'}</h1>
        {problem === null ? (
          <p>Your identity provider has sent you back.</p>
        ) : (
          <>
            <p className="notice bad" role="alert">
              {problem}
            </p>
            {isAboutAccount(error) ? <ChooseAccount /> : null}
            <a className={`button large${isAboutAccount(error) ? '' : ' primary'}`} href="/console/">
              Back to the login
            </a>
          </>
        )}
      </div>
    </main>
  );
}

/** Goes to the provider again: its code is used up, and it does not ask a person who is logged in there. */
function ChooseAccount(): ReactNode {
  const [account, setAccount] = useState('');
  const begin = useAction({
    run: () => people.beginOidc({ return_to: rememberedReturn(), account_id: account.trim() }),
    onDone: ({ authorization_url: url }) => location.assign(url),
  });
  return (
    <Form error={begin.error} onSubmit={() => begin.mutate(undefined)}>
      <AccountField value={account} onChange={setAccount} />
      {begin.error === null ? null : <Problem error={begin.error} />}
      <button type="submit" className="button primary large" disabled={begin.isPending}>
        Continue
      </button>
    </Form>
  );
}
