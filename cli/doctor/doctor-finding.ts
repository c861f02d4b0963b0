/** How one part of an installation is. `unknown`: nothing here can tell. */
export interface Finding {
  readonly check: string;
  readonly state: 'ok' | 'warn' | 'fail' | 'unknown';
  readonly message: string;
  /** What to do; null: nothing. */
  readonly next: string | null;
}

export const ok = (check: string, message: string): Finding => ({ check, state: 'ok', message, next: null });
export const warn = (check: string, message: string, next: string): Finding => ({
  ...{ check, state: 'warn', message, next },
});
export const fail = (check: string, message: string, next: string): Finding => ({
  ...{ check, state: 'fail', message, next },
});
export const unknown = (check: string, message: string, next: string): Finding => ({
  ...{ check, state: 'unknown', message, next },
});
