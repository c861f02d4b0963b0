import type { Answer } from './http-caller.ts';

/**
 * Explains to the operator an answer that is not the control plane's, but of something in between. Null: the
 * status says it all.
 */
export function answerTrouble({ status, text, location }: Answer): string | null {
  if (status >= 300 && status < 400) {
    return location === undefined
      ? 'CONTROL_PLANE_URL redirects to nowhere.'
      : `CONTROL_PLANE_URL redirects to ${location}: set it to where the control plane itself answers.`;
  }
  if (status === 407) return 'A proxy in between wants its own authentication.';
  if (status === 401 || status === 403)
    return 'It is not agent-trust that refuses: something in between (a gateway, a proxy) wants its own credentials.';
  if (status === 404)
    return 'Nothing of agent-trust is at that address: check host, port and path of CONTROL_PLANE_URL.';
  if (status === 413) return 'A proxy in between limits the length of bodies: allow 8 MiB.';
  if (status === 502 || status === 503 || status === 504)
    return 'A proxy in between answers: it does not reach the control plane.';
  if (/^\s*<(?:!doctype|html|head|body)/i.test(text.slice(0, 256)))
    return 'An HTML page: CONTROL_PLANE_URL leads to a web server, a login page or a proxy, and not to agent-trust.';
  return status === 200 ? 'Something that is not agent-trust answers at CONTROL_PLANE_URL.' : null;
}
