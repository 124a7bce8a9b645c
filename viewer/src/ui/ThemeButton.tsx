import { useStore } from "../state/store";
import { theme, toggleTheme } from "./theme";

export function ThemeButton() {
  const name = useStore(theme);
  const other = name === "dark" ? "light" : "dark";
  return (
    <button
      type="button"
      title={`Change to ${other} mode`}
      aria-label={`Change to ${other} mode`}
      onClick={toggleTheme}
    >
      {name === "dark" ? "☀" : "☾"}
    </button>
  );
}
