/** Asks a person with users in several accounts for one of them. Only for who has proved who they are. */
export const chooseAccount = (accounts: readonly string[]): string =>
  `You have a user in ${accounts.length} accounts. Log in again with the account_id of one: ${accounts.join(', ')}.`;
