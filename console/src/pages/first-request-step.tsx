import type { ReactNode } from 'react';

/** What is shown once. Kept only while the page is open: null is not made yet, or gone by a reload. */
export interface Secrets {
  readonly key: string | null;
  setKey(key: string): void;
  readonly passport: string | null;
  setPassport(token: string): void;
}

const stateWords = { done: 'done', now: 'to do', later: 'later' } as const;

export function Step({
  title,
  state,
  children,
}: {
  readonly title: string;
  readonly state: keyof typeof stateWords;
  readonly children?: ReactNode;
}): ReactNode {
  return (
    <li className={state}>
      <section className="card" aria-label={title}>
        <h2>
          {title} <span className={`badge ${state === 'done' ? 'good' : ''}`}>{stateWords[state]}</span>
        </h2>
        {children}
      </section>
    </li>
  );
}
