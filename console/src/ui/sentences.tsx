import type { ReactNode } from 'react';

/** What a policy demands, one sentence a line. */
export const Sentences = ({ of }: { readonly of: readonly string[] }): ReactNode => (
  <ul className="stack tight">
    {of.map((sentence) => (
      <li key={sentence}>{sentence}</li>
    ))}
  </ul>
);
