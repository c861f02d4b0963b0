/** Of an answer that is an error of this service. */
export interface ErrorBody {
  readonly code: string;
  readonly message: string;
  readonly param?: string | null;
}

/** The control plane has answered, and not what was asked for. */
export class ControlPlaneError extends Error {
  override readonly name = 'ControlPlaneError';
  readonly status: number;
  /** Of the error body; null where there was none, as from something in between. */
  readonly code: string | null;
  readonly #param: string | null;

  /** `trouble`: what stands in between, where the answer is none of this service. */
  constructor(what: string, status: number, error: ErrorBody | null, trouble: string | null = null) {
    super(
      `${what}: the control plane answered ${status} ${error === null ? `with a body that is not of this service${trouble === null ? '' : `. ${trouble}`}` : `${error.code}: ${error.message}`}`,
    );
    this.status = status;
    this.code = error?.code ?? null;
    this.#param = error?.param ?? null;
  }

  /** Another process has connected with the same sidecar id. */
  get isSuperseded(): boolean {
    return this.code === 'precondition_failed';
  }

  /**
   * The control plane itself has turned the call away, and so has not begun with it. What a proxy says, or an
   * answer that cannot be read, says nothing about the database.
   */
  get isTurnedAway(): boolean {
    return this.code !== null && this.status >= 400 && this.status < 500;
  }

  /**
   * Something is there and does not want this sidecar, as with a key that was deleted: what is on disk must
   * not serve instead.
   */
  get forbidsDisk(): boolean {
    return this.status >= 400 && this.status < 500;
  }

  /**
   * The control plane itself says that this sidecar's API key is none of its, or may not connect. What is in
   * between says no such code.
   */
  get refusesKey(): boolean {
    return this.code === 'unauthorized' || this.code === 'insufficient_scope';
  }

  /** This sidecar's id is one of another account than its API key. */
  get refusesSidecarId(): boolean {
    return this.code === 'invalid_request' && this.#param === 'sidecar_id';
  }
}
