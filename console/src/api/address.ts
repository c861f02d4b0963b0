import { useNavigate, useParams, useSearch } from '@tanstack/react-router';
import type { Search } from '../router.tsx';

/** What the address says after `?`, and how to change it without a step in the history. */
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
