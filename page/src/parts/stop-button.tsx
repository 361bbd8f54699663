import { useLayoutEffect, useRef } from "preact/hooks";

interface Props {
  onStop: () => void;
  /** Leads the focus on. */
  next: () => void;
}

/** Ends the model's work. Takes the focus of a button that went for it; whoever is on it when it goes is led on. */
export function StopButton({ onStop, next }: Props) {
  const button = useRef<HTMLButtonElement>(null);
  useLayoutEffect(() => {
    const own = button.current!;
    if (document.activeElement === document.body) own.focus({ preventScroll: true });
    return () => {
      if (own.matches(":focus-visible")) next();
    };
  }, []);
  return (
    <button ref={button} type="button" onClick={onStop}>
      Stop
    </button>
  );
}
