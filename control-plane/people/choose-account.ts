import { type ApiError, invalidRequest } from '../../shared/errors/api-error.ts';

/** Asks a person with users in several accounts for one of them. Only after authentication. */
export function chooseAccount(
  users: readonly { readonly accountId: string; readonly accountName: string }[],
): ApiError {
  const names = users.map(({ accountName, accountId }) => `${accountName} (${accountId})`);
  return invalidRequest(
    'account_id',
    `You have users in ${users.length} accounts. Log in again with the account_id of one: ${names.join(', ')}.`,
  );
}
