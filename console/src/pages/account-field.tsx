import type { ReactNode } from 'react';
import { AgentTrustError } from '../api/client.ts';
import { TextField } from '../ui/field.tsx';

/** For a person with users in several accounts: which of them the login is to. */
export function AccountField(props: { readonly value: string; onChange(value: string): void }): ReactNode {
  return (
    <TextField
      label="Account ID"
      hint="Of the account to open: acct_…"
      param="account_id"
      name="account_id"
      required
      spellCheck={false}
      {...props}
    />
  );
}

/** The service cannot tell which account a person means. */
export const isAboutAccount = (error: unknown): boolean =>
  error instanceof AgentTrustError && error.param === 'account_id';

const returnKey = 'agent-trust-return';

/** The page that was asked for, for a second way to the identity provider. */
export const rememberReturn = (path: string): void => sessionStorage.setItem(returnKey, path);
export const rememberedReturn = (): string => sessionStorage.getItem(returnKey) ?? '/console/';
