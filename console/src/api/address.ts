import { useNavigate, useParams, useSearch } from '@tanstack/react-router';

/** The state of a page in its address: every filter, tab and selection. */
export type Search = Readonly<Record<string, string | undefined>>;

/** The query of the address, and a setter without a step in the history. */
export function useAddress(): {
  readonly search: Search;
  set(changes: Search): void;
} {
  const search = useSearch({ strict: false }) as Search;
  const navigate = useNavigate();
  return {
    search,
    set: (changes) => void navigate({ to: '.', search: { ...search, ...changes }, replace: true }),
  };
}

/** The `$id` of the address. */
export const useId = (): string => String((useParams({ strict: false }) as { id?: string }).id ?? '');

/** Goes to another address of the console, from an event. */
export const useGo = (): ((to: string) => void) => {
  const navigate = useNavigate();
  return (address) => {
    const [to = '/', query = ''] = address.split('?');
    void navigate({ to, search: Object.fromEntries(new URLSearchParams(query)) });
  };
};
