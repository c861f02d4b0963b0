import type { ReactNode } from 'react';
import { send } from '../api/client.ts';
import { useSession } from '../api/session.tsx';
import { useAction } from './action.ts';

/**
 * Downloads an export. In the live world the browser does it by itself, however long it is. A link cannot say
 * that it is about the test world, so there the export is fetched and kept in memory until it is saved.
 */
export function ExportLink({
  path,
  file,
  className = 'button',
  children,
}: {
  readonly path: string;
  readonly file: string;
  readonly className?: string;
  readonly children: ReactNode;
}): ReactNode {
  const { mode } = useSession();
  const save = useAction({
    run: async () => {
      const answer = await send({ method: 'GET', path });
      const url = URL.createObjectURL(await answer.blob());
      const link = document.createElement('a');
      link.href = url;
      link.download = file;
      link.click();
      URL.revokeObjectURL(url);
    },
  });
  if (mode === 'live') {
    return (
      <a className={className} href={path} download={file}>
        {children}
      </a>
    );
  }
  return (
    <button type="button" className="button" disabled={save.isPending} onClick={() => save.mutate(undefined)}>
      {save.isPending ? 'Exporting…' : children}
    </button>
  );
}
