#pragma once

namespace longbow::reporting {

const char* page_style();   // CSS of a report: light, dark, print
const char* page_script();  // sorts a table when its heading is clicked

}  // namespace longbow::reporting
