import type { ReactNode } from 'react';

/** A page of the guide, beside the console: what is typed or shown once here must not be lost by a look. */
export function GuideLink({
  page,
  className = '',
  children,
}: {
  /** With its anchor, below `/docs/guide`. */
  readonly page: string;
  readonly className?: string;
  readonly children: ReactNode;
}): ReactNode {
  return (
    <a className={className} href={`/docs/guide/${page}`} target="_blank" rel="noopener">
      {children}
      <span className="sr-only"> (in a new tab)</span>
    </a>
  );
}
