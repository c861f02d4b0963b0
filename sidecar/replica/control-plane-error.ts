import type { Answer } from './http-caller.ts';

/** The body of an error of this service. */
export interface ErrorBody {
  readonly code: string;
  readonly message: string;
  readonly param?: string | null;
}

/** The control plane, or something in between, answered with an error. */
export class ControlPlaneError extends Error {
  override readonly name = 'ControlPlaneError';
  readonly status: number;
  /** From the error body; null without one, as from a proxy. */
  readonly code: string | null;
  readonly #param: string | null;

  /** `trouble`: see answerTrouble. */
  constructor(what: string, status: number, error: ErrorBody | null, trouble: string | null = null) {
    super(
      `${what}: the control plane answered ${status} ${error === null ? `with a body that is not of this service${trouble === null ? '' : `. ${trouble}`}` : `${error.code}: ${error.message}`}`,
    );
    this.status = status;
    this.code = error?.code ?? null;
    this.#param = error?.param ?? null;
  }

  /** It does not know the form of the records in the call, and has done nothing. */
  get isOfEarlierForm(): boolean {
    return this.code === 'invalid_request' && this.#param === 'form';
  }

  /** Another process has connected with the same sidecar id. */
  get isSuperseded(): boolean {
    return this.code === 'precondition_failed';
  }

  /**
   * The control plane itself refused the call and did not start it. An answer of a proxy, or an unreadable
   * one, proves nothing about the database.
   */
  get isTurnedAway(): boolean {
    return this.code !== null && this.status >= 400 && this.status < 500;
  }

  /**
   * The control plane refuses this sidecar, for example because its key was deleted: the state on disk must
   * not serve instead.
   */
  get forbidsDisk(): boolean {
    return this.status >= 400 && this.status < 500;
  }

  /**
   * The control plane itself says that the sidecar's API key is unknown or may not connect. A proxy in
   * between has no such code.
   */
  get refusesKey(): boolean {
    return this.code === 'unauthorized' || this.code === 'insufficient_scope';
  }

  /** The sidecar's id belongs to another account than its API key. */
  get refusesSidecarId(): boolean {
    return this.code === 'invalid_request' && this.#param === 'sidecar_id';
  }
}

/**
 * What stands in the way of the control plane, as an answer shows that is none of its own: a sentence for
 * the operator of this sidecar. Null: it says no more than its status.
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
