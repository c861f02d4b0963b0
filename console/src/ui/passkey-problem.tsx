import type { ReactNode } from 'react';
import { AgentTrustError } from '../api/client.ts';
import { PasskeyNotUsed } from '../api/passkeys.ts';
import { Problem } from './page.tsx';

/** Why a passkey did not work: said by the service, or by the browser. */
export function PasskeyProblem({ error }: { readonly error: Error }): ReactNode {
  // The client's codes leave out those of logins, which only browsers get.
  const isRefusal = error instanceof AgentTrustError && String(error.code) === 'login_failed';
  if (!isRefusal && !(error instanceof PasskeyNotUsed)) return <Problem error={error} />;
  return (
    <p className="notice bad" role="alert">
      {error.message}
    </p>
  );
}
