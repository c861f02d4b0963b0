import {
  createContext,
  type FormEvent,
  type ReactNode,
  useCallback,
  useContext,
  useEffect,
  useMemo,
  useRef,
  useState,
} from 'react';
import { AgentTrustError } from '../api/client.ts';

interface FormFaults {
  /** Of the last attempt to send the form. */
  readonly error: unknown;
  /** Says that a field of this name is shown. Returns how to take that back. */
  show(param: string): () => void;
  /** Whether the error is about a field that is shown. */
  isAtField(error: unknown): boolean;
}

const Faults = createContext<FormFaults | null>(null);

/**
 * A field of `constraints` shows what is said of `constraints.spend_limits.daily_usd`. Places in lists are
 * named with dots.
 */
const isAbout = (error: unknown, param: string): boolean => {
  const at = error instanceof AgentTrustError ? error.param?.replaceAll(/\[(\d+)\]/g, '.$1') : undefined;
  return (
    at !== undefined && (at === param || (at.startsWith(param) && /^[.[/]/.test(at.slice(param.length))))
  );
};

/**
 * Around the fields and buttons of one change. The service's error about a field is shown at that field,
 * which gets the focus; other errors are left to a `Problem`.
 */
export function FieldFaults({
  error,
  children,
}: {
  readonly error: unknown;
  readonly children: ReactNode;
}): ReactNode {
  const around = useRef<HTMLDivElement>(null);
  // State, because a field may appear by the error that is about it.
  const [shown, setShown] = useState<readonly string[]>([]);
  const show = useCallback((param: string) => {
    setShown((before) => [...before, param]);
    return () => setShown((before) => before.filter((_each, place) => place !== before.indexOf(param)));
  }, []);
  const faults = useMemo(
    () => ({
      error,
      show,
      isAtField: (given: unknown) => given === error && shown.some((param) => isAbout(error, param)),
    }),
    [error, show, shown],
  );
  const isAtField = faults.isAtField(error);
  useEffect(() => {
    if (error !== null && isAtField)
      around.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus();
  }, [error, isAtField]);
  return (
    <Faults.Provider value={faults}>
      <div ref={around} style={{ display: 'contents' }}>
        {children}
      </div>
    </Faults.Provider>
  );
}

/** A form that is sent by script, with the faults of the last attempt. */
export function Form({
  error,
  onSubmit,
  className = 'stack',
  children,
}: {
  readonly error: unknown;
  onSubmit(): void;
  readonly className?: string;
  readonly children: ReactNode;
}): ReactNode {
  const submit = (event: FormEvent) => {
    event.preventDefault();
    onSubmit();
  };
  return (
    <form className={className} onSubmit={submit}>
      <FieldFaults error={error}>{children}</FieldFaults>
    </form>
  );
}

/** The service's error about this field; null: none. */
export function useFieldFault(param: string | undefined): string | null {
  const faults = useContext(Faults);
  const show = faults?.show;
  useEffect(() => (param === undefined ? undefined : show?.(param)), [param, show]);
  const error = faults?.error;
  if (param === undefined || !isAbout(error, param)) return null;
  return error instanceof AgentTrustError ? error.message : null;
}

/** Whether the error stands at a field of the form around. */
export const useIsAtField = (error: unknown): boolean => useContext(Faults)?.isAtField(error) ?? false;
