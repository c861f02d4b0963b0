/**
 * A page of the console, for people: below PUBLIC_URL, where their passkeys are. `baseUrl`: `{PUBLIC_URL}/v1`
 * or PUBLIC_URL alone.
 */
export const consoleUrl = (baseUrl: string, page: string): string =>
  `${publicUrlOf(baseUrl)}/console/${page}`;

export const publicUrlOf = (baseUrl: string): string => baseUrl.replace(/\/v1$/, '');

/** The page where a person answers this approval. */
export const approvalUrl = (baseUrl: string, approvalId: string): string =>
  consoleUrl(baseUrl, `approvals/${approvalId}`);
