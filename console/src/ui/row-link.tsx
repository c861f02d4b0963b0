import { useRouter } from '@tanstack/react-router';
import type { MouseEvent, ReactNode } from 'react';

/**
 * A link in a list that may be long: a Link of the router looks at the router each time it is drawn, which
 * takes longer than the rest of its row. `to` is below `/console`, and holds no text of strangers but ids.
 */
export function RowLink({
  to,
  title,
  children,
}: {
  readonly to: string;
  readonly title?: string;
  readonly children: ReactNode;
}): ReactNode {
  const router = useRouter();
  const href = `/console${to}`;
  const follow = (event: MouseEvent) => {
    // What opens a window or a download is the browser's.
    if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    void router.navigate({ href });
  };
  return (
    <a href={href} {...(title === undefined ? {} : { title })} onClick={follow}>
      {children}
    </a>
  );
}
