import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ProfilePage } from "./pages/ProfilePage";
import { ProfilesPage } from "./pages/ProfilesPage";
import { readLink } from "./state/link";
import "./ui/theme";

function Page() {
  const [link, setLink] = useState(() => readLink(location.hash));
  useEffect(() => {
    const follow = () => setLink(readLink(location.hash));
    window.addEventListener("hashchange", follow);
    return () => window.removeEventListener("hashchange", follow);
  }, []);
  return link.page === "profile" ? <ProfilePage link={link} /> : <ProfilesPage />;
}

render(<Page />, document.getElementById("page")!);
