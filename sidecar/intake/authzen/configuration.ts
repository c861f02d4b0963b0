import { authzenMetadata } from '../../../shared/wire/api/authzen.ts';

/**
 * The metadata of this policy decision point (OpenID AuthZEN Authorization API 1.0 §9). `origin`: of this
 * sidecar. Searches and subjects without a token are the control plane's, so nothing of them is here.
 */
export const authzenConfiguration = (origin: string, requestsUrl: string): string =>
  JSON.stringify(authzenMetadata(origin, requestsUrl));
