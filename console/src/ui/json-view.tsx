import type { ReactNode } from 'react';
import { misleadingCharacter } from '../../../shared/model/plain-text.ts';
import { Copy } from './copy.tsx';

/** Line feeds are those of the layout: JSON escapes its own. */
const escaped = (text: string): string =>
  text.replaceAll(misleadingCharacter, (char) =>
    char === '\n' ? char : `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );

/** An object as the API answers it. What would disguise text is shown as its code, which JSON reads alike. */
export function JsonView({
  value,
  what = 'JSON',
}: {
  readonly value: unknown;
  readonly what?: string;
}): ReactNode {
  const text = escaped(JSON.stringify(value, null, 2));
  return (
    <div className="stack tight">
      <div className="actions">
        <Copy text={text} what={what} />
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
      <pre tabIndex={0}>{text}</pre>
    </div>
  );
}
