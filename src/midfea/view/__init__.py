"""One kit of HTML, CSS, JavaScript and plot parts for the report, the explanation and the teach page."""
