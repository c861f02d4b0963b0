/** Addresses of the authorization server, below the origin of PUBLIC_URL. */
export const endpoints = {
  authorization: '/oauth/authorize',
  token: '/oauth/token',
  revocation: '/oauth/revoke',
  consent: '/oauth/consent',
  registration: '/oauth/register',
} as const;
